package blocks

import (
	"cmp"
	"context"
	"iter"
	"sort"
	"sync"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Tables holds the tables of a model's compressed tensors, each as far as somebody has walked
// it. The zero value is ready for use.
type Tables struct {
	tables sync.Map // *Table by *layout.Tensor
}

// Of returns the table of t, which lies in a file of format f.
func (ts *Tables) Of(f layout.Format, t *layout.Tensor) *Table {
	table, ok := ts.tables.Load(t)
	if !ok {
		table, _ = ts.tables.LoadOrStore(t, NewTable(f, t.Offset, t.Stored, t.Raw))
	}
	return table.(*Table)
}

// Tensor reads a compressed tensor from the file that holds it.
type Tensor struct {
	*Table
	File *mmapio.Mapping
	// Ctx bounds reading, and the waiting for others that walk the table.
	Ctx context.Context
}

// PieceBytes is how much is read at a time of a file that is not mapped. It holds two blocks
// of any size, so that a piece always holds an element.
const PieceBytes = 16 << 20

// piece is consecutive blocks whose stored bytes are in memory.
type piece struct {
	table  *Table
	lo, hi uint64 // the blocks lo to hi-1
	stored []byte // from the start of block lo on
}

// piece makes blocks lo to hi-1 available: of a file that is not mapped, as many as PieceBytes
// hold. The piece lives as long as the mapping and until sc is used again. A block that sc
// holds already is not read.
func (t Tensor) piece(sc *scratch, lo, hi uint64) (piece, error) {
	p := piece{table: t.Table, lo: lo, hi: hi}
	switch {
	case hi == lo+1 && sc.holds(t.Table, lo):
		return p, nil
	case !t.File.Aliased():
		return p, p.read(t, sc)
	}
	if t.Known() < hi { // the method value is an allocation
		if err := t.Reach(t.Ctx, hi, t.slice); err != nil {
			return p, err
		}
	}
	off, size := t.Span(lo, hi)
	var err error
	p.stored, err = t.slice(off, size)
	return p, err
}

// slice returns n of the stored bytes in a file that is in memory.
func (t Tensor) slice(off, n uint64) ([]byte, error) {
	return t.File.SliceContext(t.Ctx, t.offset+off, n)
}

// readFull fills b with stored bytes from off on.
func (t Tensor) readFull(b []byte, off uint64) error {
	return mmapio.ReadFull(t.Ctx, t.File, b, t.offset+off)
}

// read reads as many of the blocks lo to hi-1 as PieceBytes hold, and sets hi accordingly.
// Unknown lengths come along with the blocks if these are many, or all that is left of the
// tensor. Otherwise the lengths are read first, one by one.
func (p *piece) read(t Tensor, sc *scratch) error {
	walk := func(off, n uint64) ([]byte, error) {
		b := sc.storedBytes(n)
		return b, t.readFull(b, off)
	}
	const few = 4
	if t.Known() >= p.hi || p.hi < t.Count() && (p.hi-p.lo <= few || p.lo > t.Known()) {
		if err := t.Reach(t.Ctx, p.hi, walk); err != nil {
			return err
		}
		n := sort.Search(int(p.hi-p.lo), func(i int) bool {
			_, size := t.Span(p.lo, p.lo+uint64(i)+1)
			return size > PieceBytes
		})
		p.hi = p.lo + uint64(n)
		var err error
		p.stored, err = walk(t.Span(p.lo, p.hi))
		return err
	}
	if err := t.Reach(t.Ctx, p.lo, walk); err != nil {
		return err
	}
	off, size := p.estimate()
	var err error
	if p.stored, err = walk(off, min(PieceBytes, size)); err != nil {
		return err
	}
	end, err := t.Scan(t.Ctx, p.lo, p.stored)
	p.hi = min(p.hi, end)
	return err
}

// estimate returns where block lo begins and how many bytes the blocks up to hi take, at the
// average of the blocks to come. At least one block is whole. The estimate is exact if hi is the
// tensor's end.
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
func (t Tensor) Walk() error {
	head := make([]byte, lz4block.LengthBytes)
	return cmp.Or(t.Empty(), t.Reach(t.Ctx, t.Count(), func(off, n uint64) ([]byte, error) {
		return head[:n], t.readFull(head[:n], off)
	}))
}

// Check expands blocks lo to hi-1 and keeps nothing. read hears how many stored bytes each
// piece of them has; its error ends the check.
func (t Tensor) Check(lo, hi uint64, read func(n uint64) error) error {
	return t.eachPiece(lo, hi, func(p *piece, sc *scratch) error {
		for i := p.lo; i < p.hi; i++ {
			if _, err := p.block(sc, i); err != nil {
				return err
			}
		}
		_, size := t.Span(p.lo, p.hi)
		return read(size)
	})
}

// eachPiece calls do with the blocks lo to hi-1, piece by piece: a file that is not mapped is read in large ones. Every
// piece has its stored bytes.
func (t Tensor) eachPiece(lo, hi uint64, do func(p *piece, sc *scratch) error) error {
	if err := t.Empty(); err != nil {
		return err
	}
	sc := takeScratch()
	defer sc.give()
	sc.forget()
	for lo < hi {
		p, err := t.piece(sc, lo, hi)
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

// decode expands block i into dst, which takes all that it yields.
func (p *piece) decode(sc *scratch, dst []byte, i uint64) error {
	off, size := p.table.Span(i, i+1)
	base, _ := p.table.Span(p.lo, p.lo)
	src := p.stored[off-base:][lz4block.LengthBytes:size]
	if sc.decoder.Decode(dst, src) {
		return nil
	}
	return p.table.Errorf(i, off, layout.ErrInvalid, "no LZ4 block of %d bytes that yields %d", len(src), len(dst))
}

// block returns what block i yields, in sc and until sc is used again.
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

// copy fills dst with the elements' bytes from off on. The piece holds them all.
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

// large reports whether p is worth more than one core.
func (p *piece) large() bool {
	return p.hi-p.lo > parallel.PieceBytes/lz4block.Size && parallel.Cores() > 1
}

// copyParallel does what copy does, on all cores if that pays.
func (p *piece) copyParallel(sc *scratch, dst []byte, off uint64) error {
	if !p.large() {
		return p.copy(sc, dst, off)
	}
	own := *p // for p to stay off the heap in the case above
	return onAllCores(parallel.PieceBytes, off, uint64(len(dst)), func(sc *scratch, from, upto uint64) error {
		return own.copy(sc, dst[from-off:upto-off], from)
	})
}

// onAllCores divides [off, off+n) at multiples of step and has each core do the next part.
func onAllCores(step, off, n uint64, do func(sc *scratch, from, upto uint64) error) error {
	base, end := off/step*step, off+n
	n = (end - base + step - 1) / step
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(parts iter.Seq[uint64]) error {
		sc := takeScratch()
		defer sc.give()
		for i := range parts {
			if err := do(sc, max(off, base+i*step), min(end, base+(i+1)*step)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Read reads n bytes of the elements from off on.
func (t Tensor) Read(to mmapio.Destination[byte], off, n uint64) error {
	if n == 0 {
		return t.Empty()
	}
	sc := takeScratch()
	defer sc.give()
	for end := off + n; off < end; {
		p, err := t.piece(sc, off/lz4block.Size, lz4block.Count(end))
		if err != nil {
			return err
		}
		dst := to.Room(off, min(end, p.hi*lz4block.Size)-off)
		if err := to.Filled(off, dst, p.copyParallel(sc, dst, off)); err != nil {
			return err
		}
		off += uint64(len(dst))
	}
	return nil
}

// Decode returns all elements, whose blocks are stored. Memory for them is taken once the
// blocks are known to be there.
func (t Tensor) Decode(stored []byte) ([]byte, error) {
	if err := t.Empty(); err != nil {
		return nil, err
	}
	n, err := t.Scan(t.Ctx, 0, stored)
	if err != nil {
		return nil, err
	}
	p := piece{table: t.Table, hi: n, stored: stored}
	sc := takeScratch()
	defer sc.give()
	dst := mmapio.AlignedBytes(int(t.raw))
	return dst, p.copyParallel(sc, dst, 0)
}
