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

// Resident returns how many bytes of the plan's pieces of mapped files are in memory, and notes them in each piece. Call it before
// Read, which makes the kernel read ahead. Files that cannot tell count as 0. It fails if a file's Resident does, or if ctx ends.
func (p *Plan) Resident(ctx context.Context) (total uint64, err error) {
	for i := range p.Pieces {
		piece := &p.Pieces[i]
		if len(piece.shares) > 0 { // not of a mapped file
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

// Read brings all pieces into memory, by as many goroutines as readers says, and adds their bytes to progress. If a piece
// cannot be read, it stops the other readers and returns that piece's error. It also fails if ctx ends.
func (p *Plan) Read(ctx context.Context, readers int, progress *parallel.Progress) error {
	reading, stop := context.WithCancelCause(ctx) // a reader that fails stops the others
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
		read := p.readToTargets
		if len(piece.shares) == 0 { // of a mapped file
			read = p.warmPiece
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

// warmPiece brings a piece of a mapped file into memory. It first waits until the plan's rate allows the bytes of it that
// Resident has not found there. It fails if File.Warm does, or with the cause of ctx if that ends first.
func (p *Plan) warmPiece(ctx context.Context, piece *Piece) error {
	if err := p.wait(ctx, piece.N-piece.resident); err != nil {
		return err
	}
	return piece.File.Wrap(piece.File.Warm(ctx, piece.Off, piece.N, piece.resident < piece.N))
}

// request is one read of n bytes at off of a file into buffers: consecutive bytes of the file but for padding.
type request struct {
	off, n  uint64
	buffers []Padded
}

// add appends the memory of s, whose bytes follow the request's last one in the file, but for padding.
func (r *request) add(s *targetShare) {
	padding := s.paddingBefore
	if r.n == 0 { // padding is read only between two shares
		r.off += padding
		padding = 0
	}
	r.buffers = append(r.buffers, Padded{padding, s.memory})
	r.n += padding + s.size
}

// readToTargets reads a piece of a file that is not mapped into the memory of its targets, and then calls Filled of each. A
// share for which a target returns no memory is not read: it divides the piece into two requests. It fails if reading or a
// target does, or if ctx ends.
func (p *Plan) readToTargets(ctx context.Context, piece *Piece) error {
	r := request{off: piece.Off}
	for i := range piece.shares {
		share := &piece.shares[i]
		var err error
		if share.memory, err = share.target.Memory(share.targetAt, share.size); err != nil {
			return err
		}
		if share.memory != nil {
			r.add(share)
			continue
		}
		if err := p.readRequest(ctx, piece.File, &r); err != nil {
			return err
		}
		r = request{off: r.off + r.n + share.paddingBefore + share.size} // the next request begins behind share
	}
	if err := p.readRequest(ctx, piece.File, &r); err != nil {
		return err
	}
	for i := range piece.shares {
		share := &piece.shares[i]
		if share.memory == nil {
			continue
		}
		b := share.memory
		share.memory = nil // for the memory to be free before the whole plan is read
		if err := share.target.Filled(ctx, share.targetAt, b); err != nil {
			return err
		}
	}
	return nil
}

// readRequest fills the buffers of r with bytes of f, once the plan's rate allows it. It does nothing if r has no bytes. It fails if
// f.Fill does, with an error that names the file, or if ctx ends.
func (p *Plan) readRequest(ctx context.Context, f File, r *request) error {
	if r.n == 0 {
		return nil
	}
	if err := p.wait(ctx, r.n); err != nil {
		return err
	}
	return f.Wrap(f.Fill(ctx, r.buffers, r.off))
}

// ReadEach fills buffers with the bytes of a file from off on, by one call of read for each. It skips the padding
// before each. It fails if read does, or if ctx ends between two calls.
func ReadEach(ctx context.Context, buffers []Padded, off uint64, read func(ctx context.Context, p []byte, off uint64) error) error {
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

// pieces are memory for ReadAtOnce, whose size is that of the largest read.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// ReadAtOnce fills buffers with the bytes of a file from off on. It calls read once, for all bytes and the padding between
// them, and then copies the bytes. It fails if read does.
func ReadAtOnce(ctx context.Context, buffers []Padded, off uint64, read func(ctx context.Context, p []byte, off uint64) error) error {
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
