package plan

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
)

// FindResident returns how many bytes of the plan's pieces of mapped files are in memory, and notes them in each piece. Call it before reading,
// which makes the kernel read ahead. A file that cannot tell counts as 0 bytes. It fails if a file's Resident does for another reason, or
// if ctx ends.
func (p *Plan) FindResident(ctx context.Context) (total uint64, err error) {
	for i := range p.Pieces {
		piece := &p.Pieces[i]
		if piece.Tensors != nil { // not of a mapped file
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return total, err
		}
		n, err := piece.File.Resident(piece.Off, piece.N)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return total, piece.File.Wrap(err)
		}
		piece.Resident = n
		total += n
	}
	return total, nil
}

// EachPiece calls read for all pieces, in their order, by as many goroutines as readers says. It fails as [Each] does.
func (p *Plan) EachPiece(ctx context.Context, readers int, read func(context.Context, *Piece) error) error {
	return Each(ctx, readers, uint64(len(p.Pieces)), func(ctx context.Context, i uint64) error { return read(ctx, &p.Pieces[i]) })
}

// Each calls read for the numbers 0 to n-1, in this order, by as many goroutines as readers says. Once a call has failed, it makes no
// further ones, and the context of those that run ends. It returns the first error, or the cause of ctx if ctx has ended. A panic of a
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
				err = context.Cause(reading) // the first failure, not that of the readers it cancels
				break
			}
		}
		returned = true
		return err
	})
	return cmp.Or(context.Cause(ctx), err)
}
