package content

import (
	"cmp"
	"context"
	"io"
	"iter"
	"sort"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// LZ4 is the elements of a compressed tensor, which blocks of package lz4block hold. A file says where a
// block begins only by the lengths of all blocks before it: the [Table] walks these lengths, no
// further than it has to and no length twice.
type LZ4 struct {
	*Table
	Stored Content
}

// PieceBytes is how much is read at a time of a file that is not mapped. It holds two blocks
// of any size, so that a piece always holds an element.
const PieceBytes = Far

// InPlace reports whether the stored bytes are in memory, mapped or the caller's.
func (t LZ4) InPlace() bool { return t.Stored.Cost().Piece == 0 }

// Cost lets several cores decompress what is in place. From elsewhere many blocks come at once.
func (t LZ4) Cost() Cost {
	c := t.Stored.Cost()
	if c.Piece == 0 {
		return Cost{Piece: parallel.PieceBytes, Parallel: true, Waits: c.Waits}
	}
	return Cost{Piece: PieceBytes, Waits: c.Waits}
}

// Size returns the number of bytes that all blocks yield.
func (t LZ4) Size() uint64 { return t.raw }

// View returns nil: elements are made when they are read.
func (t LZ4) View(context.Context, Env, uint64, uint64) ([]byte, error) { return nil, nil }

// Probe checks that all blocks of a file in place exist. Elsewhere every block would take a read.
func (t LZ4) Probe(ctx context.Context) (sure bool, err error) {
	if !t.InPlace() {
		return false, nil
	}
	if sure, err = t.Stored.Probe(ctx); err == nil {
		err = t.Walk(ctx)
	}
	return sure, err
}

// piece is consecutive blocks whose stored bytes are in memory.
type piece struct {
	table  *Table
	lo, hi uint64 // the blocks lo to hi-1
	stored []byte // from the start of block lo on
}

// piece returns the stored bytes of blocks lo to hi-1. If the file is not mapped, it reads as many of them as
// PieceBytes hold, and sets hi accordingly. They are valid until sc is used again or the mapping is closed. If sc has
// the only block expanded already, piece reads nothing.
func (t LZ4) piece(ctx context.Context, sc *scratch, lo, hi uint64) (piece, error) {
	p := piece{table: t.Table, lo: lo, hi: hi}
	switch {
	case hi == lo+1 && sc.holds(t.Table, lo):
		return p, nil
	case !t.InPlace():
		return p, p.read(ctx, t, sc)
	}
	if t.Known() < hi { // in a method of its own, since its closure is allocated
		if err := t.reachInPlace(ctx, hi); err != nil {
			return p, err
		}
	}
	off, size := t.Span(lo, hi)
	var err error
	p.stored, err = t.Stored.View(ctx, Env{}, off, size)
	return p, err
}

// reachInPlace makes sure that the offsets of the first n blocks are known, from stored bytes that View has.
func (t LZ4) reachInPlace(ctx context.Context, n uint64) error {
	return t.Reach(ctx, n, func(off, n uint64) ([]byte, error) { return t.Stored.View(ctx, Env{}, off, n) })
}

// read reads as many of the blocks lo to hi-1 of t as PieceBytes hold into sc, and sets p.stored and p.hi. If lengths
// are unknown, it reads an estimate of the bytes and finds the lengths in them. For few blocks, or blocks further on,
// it reads the lengths first, one by one.
func (p *piece) read(ctx context.Context, t LZ4, sc *scratch) error {
	walk := func(off, n uint64) ([]byte, error) { // reads n stored bytes at off into sc
		b := sc.storedBytes(n)
		return b, t.Stored.ReadAt(ctx, Env{}, b, off)
	}
	const few = 4
	if t.Known() >= p.hi || p.hi < t.Count() && (p.hi-p.lo <= few || p.lo > t.Known()) {
		if err := t.Reach(ctx, p.hi, walk); err != nil {
			return err
		}
		n := sort.Search(int(p.hi-p.lo), func(i int) bool { // n blocks fit, n+1 do not
			_, size := t.Span(p.lo, p.lo+uint64(i)+1)
			return size > PieceBytes
		})
		p.hi = p.lo + uint64(n)
		var err error
		p.stored, err = walk(t.Span(p.lo, p.hi))
		return err
	}
	if err := t.Reach(ctx, p.lo, walk); err != nil {
		return err
	}
	off, size := p.estimate()
	var err error
	if p.stored, err = walk(off, min(PieceBytes, size)); err != nil {
		return err
	}
	end, err := t.Scan(ctx, p.lo, p.stored)
	p.hi = min(p.hi, end)
	return err
}

// estimate returns where block p.lo begins, and about how many bytes the blocks up to p.hi take: the average of the
// tensor's remaining blocks for each, but enough for one block of any size. The size is exact if p.hi is the tensor's
// end.
func (p *piece) estimate() (off, size uint64) {
	off, _ = p.table.Span(p.lo, p.lo)
	left, blocks := p.table.stored-off, p.table.Count()-p.lo
	if p.hi-p.lo == blocks {
		return off, left
	}
	size = left / blocks * (p.hi - p.lo)
	return off, min(left, max(size, lz4block.LengthBytes+lz4block.MaxStored))
}

// Walk checks the lengths of all blocks, and that a tensor without elements has none.
func (t LZ4) Walk(ctx context.Context) error {
	head := make([]byte, lz4block.LengthBytes) // the length of one block at a time
	return cmp.Or(t.Empty(), t.Reach(ctx, t.Count(), func(off, n uint64) ([]byte, error) {
		return head[:n], t.Stored.ReadAt(ctx, Env{}, head[:n], off)
	}))
}

// Check expands blocks lo to hi-1 and discards them. It returns an error for the first block that is wrong. It calls
// read with the number of stored bytes that it has checked since the last call, and stops at read's error.
func (t LZ4) Check(ctx context.Context, lo, hi uint64, read func(n uint64) error) error {
	return t.eachPiece(ctx, lo, hi, func(p *piece, sc *scratch) error {
		for i := p.lo; i < p.hi; i++ {
			if _, err := p.block(sc, i); err != nil {
				return err
			}
		}
		_, size := t.Span(p.lo, p.hi)
		return read(size)
	})
}

// eachPiece calls do with pieces that together are the blocks lo to hi-1, in order, until do fails. A mapped file is
// one piece, others are read PieceBytes at a time. Every piece has its stored bytes.
func (t LZ4) eachPiece(ctx context.Context, lo, hi uint64, do func(p *piece, sc *scratch) error) error {
	if err := t.Empty(); err != nil {
		return err
	}
	sc := takeScratch()
	defer sc.give()
	sc.forget() // or piece might return a block without its stored bytes
	for lo < hi {
		p, err := t.piece(ctx, sc, lo, hi)
		if err != nil {
			return err
		}
		if err := do(&p, sc); err != nil {
			return err
		}
		lo = p.hi
	}
	return nil
}

// decode expands block i of p into dst, which must have the size that it yields. It returns an error if the stored
// bytes are no LZ4 block of this size.
func (p *piece) decode(sc *scratch, dst []byte, i uint64) error {
	off, size := p.table.Span(i, i+1)
	base, _ := p.table.Span(p.lo, p.lo)
	src := p.stored[off-base:][lz4block.LengthBytes:size]
	if sc.decoder.Decode(dst, src) {
		return nil
	}
	return p.table.Errorf(i, off, layout.ErrInvalid, "no LZ4 block of %d bytes that yields %d", len(src), len(dst))
}

// block returns the expanded bytes of block i, in memory of sc and valid until sc is used again. It expands nothing
// if sc has this block already.
func (p *piece) block(sc *scratch, i uint64) ([]byte, error) {
	b := sc.block[:p.table.Yield(i)]
	if sc.holds(p.table, i) {
		return b, nil
	}
	sc.forget()
	if err := p.decode(sc, b, i); err != nil {
		return nil, err
	}
	sc.table, sc.number = p.table, i
	return b, nil
}

// copy fills dst with the tensor's expanded bytes from off on, which must lie in blocks of p. Whole blocks expand into
// dst itself, parts of blocks by way of sc.
func (p *piece) copy(sc *scratch, dst []byte, off uint64) error {
	for len(dst) > 0 {
		i, skip := off/lz4block.Size, off%lz4block.Size
		n := min(p.table.Yield(i)-int(skip), len(dst))
		if n == p.table.Yield(i) && !sc.holds(p.table, i) {
			if err := p.decode(sc, dst[:n], i); err != nil {
				return err
			}
		} else {
			b, err := p.block(sc, i)
			if err != nil {
				return err
			}
			copy(dst[:n], b[skip:])
		}
		dst, off = dst[n:], off+uint64(n)
	}
	return nil
}

// maxSerial is the largest number of blocks that one core expands alone.
const maxSerial = 24

// copyParallel does what copy does, on all cores if that pays.
func (p *piece) copyParallel(sc *scratch, dst []byte, off uint64) error {
	if p.hi-p.lo <= maxSerial || parallel.Cores() == 1 {
		return p.copy(sc, dst, off)
	}
	own := *p // the closure would else move p to the heap, in the case above too
	base, end := off/parallel.PieceBytes*parallel.PieceBytes, off+uint64(len(dst))
	n := parallel.Pieces(end - base)
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(parts iter.Seq[uint64]) error {
		sc := takeScratch()
		defer sc.give()
		for i := range parts {
			from, upto := max(off, base+i*parallel.PieceBytes), min(end, base+(i+1)*parallel.PieceBytes)
			if err := own.copy(sc, dst[from-off:upto-off], from); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadAt fills p with the elements' bytes from off on, and decompresses the blocks that have them. Scratch memory
// remembers the last block that was not decompressed into p itself.
func (t LZ4) ReadAt(ctx context.Context, _ Env, p []byte, off uint64) error {
	if len(p) == 0 {
		return t.Empty()
	}
	sc := takeScratch()
	defer sc.give()
	for end := off + uint64(len(p)); off < end; {
		piece, err := t.piece(ctx, sc, off/lz4block.Size, lz4block.Count(end))
		if err != nil {
			return err
		}
		n := min(end, piece.hi*lz4block.Size) - off
		if err := piece.copyParallel(sc, p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// WriteStored writes the blocks to w as they are stored, with their lengths. It checks the lengths, but expands
// nothing.
func (t LZ4) WriteStored(ctx context.Context, w io.Writer) error {
	if t.InPlace() {
		if err := t.Walk(ctx); err != nil {
			return err
		}
		return Write(ctx, Env{}, t.Stored, w)
	}
	return t.eachPiece(ctx, 0, t.Count(), func(p *piece, _ *scratch) error {
		_, size := t.Span(p.lo, p.hi)
		_, err := w.Write(p.stored[:size])
		return err
	})
}
