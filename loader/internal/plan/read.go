package plan

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
)

// Resident returns how many bytes of mapped files are in memory. It is asked before Read, which
// brings the kernel to read ahead.
func (p *Plan) Resident(ctx context.Context) (total uint64, err error) {
	for i := range p.Pieces {
		piece := &p.Pieces[i]
		if len(piece.parts) > 0 {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return total, err
		}
		n, err := piece.File.Resident(piece.Off, piece.N)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return total, piece.File.Wrap(err)
		}
		piece.resident = n
		total += n
	}
	return total, nil
}

// Read brings all pieces into memory, by as many goroutines as readers says, and tells progress of their bytes.
func (p *Plan) Read(ctx context.Context, readers int, progress *parallel.Progress) error {
	reading, stop := context.WithCancelCause(ctx) // once one has failed, the others read in vain
	defer stop(nil)
	err := parallel.Each(min(readers, len(p.Pieces)), parallel.Range(uint64(len(p.Pieces))), func(items iter.Seq[uint64]) error {
		returned := false
		defer func() {
			if !returned { // but panicked
				stop(nil)
			}
		}()
		err := p.work(reading, items, progress)
		returned = true
		if err != nil {
			stop(err)
			err = context.Cause(reading) // the first failure, not that of the readers it cancels
		}
		return err
	})
	return cmp.Or(context.Cause(ctx), err)
}

func (p *Plan) work(ctx context.Context, items iter.Seq[uint64], progress *parallel.Progress) error {
	for i := range items {
		piece := &p.Pieces[i]
		read := p.fill
		if len(piece.parts) == 0 {
			read = p.populate
		}
		err := cmp.Or(context.Cause(ctx), read(ctx, piece))
		if err != nil {
			return err
		}
		progress.Add(piece.N)
	}
	return nil
}

// populate reads a piece of a mapped file when it is its time. Announced first, it comes in as
// large requests as the device takes, and nothing else does. Faults alone would read small
// pieces and then ahead, by how the device is set up.
func (p *Plan) populate(ctx context.Context, piece *Piece) error {
	if err := p.wait(ctx, piece.N-piece.resident); err != nil {
		return err
	}
	return piece.File.Wrap(piece.File.Warm(ctx, piece.Off, piece.N, piece.resident < piece.N))
}

// request is memory that one read fills.
type request struct {
	off, n  uint64
	buffers []Padded
}

// fill reads a piece of a file that is not mapped into its targets.
func (p *Plan) fill(ctx context.Context, piece *Piece) error {
	r := request{off: piece.Off}
	for i := range piece.parts {
		part := &piece.parts[i]
		var err error
		if part.b, err = part.target.Room(part.at, part.n); err != nil {
			return err
		}
		if part.b == nil {
			if err := p.read(ctx, piece.File, &r); err != nil {
				return err
			}
			r = request{off: r.off + r.n + part.gap + part.n}
			continue
		}
		gap := part.gap
		if r.n == 0 { // padding is read only between two tensors
			r.off += gap
			gap = 0
		}
		r.buffers = append(r.buffers, Padded{gap, part.b})
		r.n += gap + part.n
	}
	if err := p.read(ctx, piece.File, &r); err != nil {
		return err
	}
	for i := range piece.parts {
		part := &piece.parts[i]
		if part.b == nil {
			continue
		}
		b := part.b
		part.b = nil // the plan goes on, and the bytes need not be there until its end
		if err := part.target.Arrived(ctx, part.at, b); err != nil {
			return err
		}
	}
	return nil
}

// read makes the request when it is its time.
func (p *Plan) read(ctx context.Context, f File, r *request) error {
	if r.n == 0 {
		return nil
	}
	if err := p.wait(ctx, r.n); err != nil {
		return err
	}
	return f.Wrap(f.Fill(ctx, r.buffers, r.off))
}

// FillEach fills buffers from off on by a read of each.
func FillEach(ctx context.Context, buffers []Padded, off uint64, read func(ctx context.Context, p []byte, off uint64) error) error {
	for _, b := range buffers {
		off += b.Gap
		if err := cmp.Or(context.Cause(ctx), read(ctx, b.B, off)); err != nil {
			return err
		}
		off += uint64(len(b.B))
	}
	return nil
}

// pieces are memory for what one read brings of several targets.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// FillAtOnce fills buffers from off on by one read.
func FillAtOnce(ctx context.Context, buffers []Padded, off uint64, read func(ctx context.Context, p []byte, off uint64) error) error {
	size := 0
	for _, b := range buffers {
		size += int(b.Gap) + len(b.B)
	}
	mem := pieces.Get().(*[]byte)
	defer pieces.Put(mem)
	*mem = slices.Grow((*mem)[:0], size)[:size]
	if err := read(ctx, *mem, off); err != nil {
		return err
	}
	for rest := *mem; len(buffers) > 0; buffers = buffers[1:] {
		rest = rest[buffers[0].Gap:]
		rest = rest[copy(buffers[0].B, rest):]
	}
	return nil
}
