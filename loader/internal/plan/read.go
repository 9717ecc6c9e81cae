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

// Resident returns how many bytes of the plan's pieces of mapped files are in memory, and notes them in each piece.
// Call it before Read, which makes the kernel read ahead. Files that cannot tell count as 0.
func (p *Plan) Resident(ctx context.Context) (total uint64, err error) {
	for i := range p.Pieces {
		piece := &p.Pieces[i]
		if len(piece.parts) > 0 { // not of a mapped file
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
			if !returned { // a panic: the other readers stop
				stop(nil)
			}
		}()
		err := p.readPieces(reading, items, progress)
		returned = true
		if err != nil {
			stop(err)
			err = context.Cause(reading) // the first failure, not that of the readers it cancels
		}
		return err
	})
	return cmp.Or(context.Cause(ctx), err)
}

// readPieces reads the pieces whose numbers items yields, until one fails or ctx ends. It adds their bytes to progress.
func (p *Plan) readPieces(ctx context.Context, items iter.Seq[uint64], progress *parallel.Progress) error {
	for i := range items {
		piece := &p.Pieces[i]
		read := p.fill
		if len(piece.parts) == 0 { // of a mapped file
			read = p.populate
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := read(ctx, piece); err != nil {
			return err
		}
		progress.Add(piece.N)
	}
	return nil
}

// populate brings a piece of a mapped file into memory, once the plan's rate allows it. Warm announces the piece to the
// kernel, which then reads it in large requests and nothing else. Page faults alone would read small pieces, and ahead.
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

// fill reads a piece of a file that is not mapped into the memory of its targets, and tells each target. Bytes that a
// target does not need divide the piece into several requests.
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
			r = request{off: r.off + r.n + part.gap + part.n} // the next begins behind part
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
		part.b = nil // for the memory to be free before the whole plan is read
		if err := part.target.Arrived(ctx, part.at, b); err != nil {
			return err
		}
	}
	return nil
}

// read makes request r of f, unless it is empty, once the plan's rate allows it. Errors name the file.
func (p *Plan) read(ctx context.Context, f File, r *request) error {
	if r.n == 0 {
		return nil
	}
	if err := p.wait(ctx, r.n); err != nil {
		return err
	}
	return f.Wrap(f.Fill(ctx, r.buffers, r.off))
}

// FillEach fills buffers with the bytes of a file from off on, by one call of read for each. It skips the padding
// before each, and stops at the first error.
func FillEach(ctx context.Context, buffers []Padded, off uint64, read func(ctx context.Context, p []byte, off uint64) error) error {
	for _, b := range buffers {
		off += b.Gap
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := read(ctx, b.B, off); err != nil {
			return err
		}
		off += uint64(len(b.B))
	}
	return nil
}

// pieces are memory for what one read brings of several targets.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// FillAtOnce fills buffers with the bytes of a file from off on, padding between them left out. It calls read once, for
// all bytes together, and copies.
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
		rest = rest[copy(buffers[0].B, rest):] // rest goes on behind what was copied
	}
	return nil
}
