package plan

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
)

// FindResident returns how many bytes of the plan's ranges of mapped files are in memory, and notes them in each range. Call it before
// reading, which makes the kernel read ahead. A file that cannot tell counts as 0 bytes. It fails if a file's Resident does for another
// reason, or if ctx ends.
func (p *Plan) FindResident(ctx context.Context) (total uint64, err error) {
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if r.Tensors != nil { // not of a mapped file
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return total, err
		}
		n, err := r.File.Resident(r.Off, r.N)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return total, r.File.Wrap(err)
		}
		r.Resident = n
		total += n
	}
	return total, nil
}

// EachRange calls read for all ranges, in their order, by as many goroutines as readers says. It fails as [Each] does.
func (p *Plan) EachRange(ctx context.Context, readers int, read func(context.Context, *Range) error) error {
	return Each(ctx, readers, uint64(len(p.Ranges)), func(ctx context.Context, i uint64) error { return read(ctx, &p.Ranges[i]) })
}

// Each calls read for the numbers 0 to n-1, in this order, by as many goroutines as readers says. Once a call has failed, it makes no
// further ones, and the context of running calls ends. It returns the first error, or the cause of ctx if ctx has ended. A panic of a
// call ends the others too.
func Each(ctx context.Context, readers int, n uint64, read func(ctx context.Context, i uint64) error) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := parallel.Each(int(min(uint64(readers), n)), parallel.Range(n), func(items iter.Seq[uint64]) (err error) {
		returned := false
		defer func() {
			if !returned { // a panic: the other readers stop
				stop(nil)
			}
		}()
		for i := range items {
			if err = context.Cause(reading); err == nil {
				err = read(reading, i)
			}
			if err != nil {
				stop(err)
				err = context.Cause(reading) // the first failure, not a failure of the readers it cancels
				break
			}
		}
		returned = true
		return err
	})
	return cmp.Or(context.Cause(ctx), err)
}
