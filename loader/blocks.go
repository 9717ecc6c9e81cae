package loader

import (
	"cmp"
	"runtime"
	"sort"
	"sync"

	"github.com/tensormap/tensormap/loader/lz4block"
	"github.com/tensormap/tensormap/mmapio"
)

// blockTables are where the blocks of compressed tensors are: for every tensor as far as
// somebody has asked, and kept as long as the model. The zero value is ready for use.
type blockTables struct {
	tables sync.Map // *lz4block.Table by *layout.Tensor
}

func (b *blockTables) of(t Tensor) *lz4block.Table {
	table, ok := b.tables.Load(t.desc)
	if !ok {
		table, _ = b.tables.LoadOrStore(t.desc,
			lz4block.NewTable(t.file.index.Format, t.desc.Offset, t.desc.Stored, t.desc.Raw))
	}
	return table.(*lz4block.Table)
}

// blocks is t's table.
func (t Tensor) blocks() *lz4block.Table { return t.file.model.blocks.of(t) }

// stretch is a run of blocks whose stored bytes are in memory.
type stretch struct {
	tensor Tensor
	table  *lz4block.Table
	lo, hi uint64 // the blocks lo to hi-1
	stored []byte // from the start of block lo on
}

// segment is how much is read at a time of a file that is not mapped. It holds two blocks
// of any size, so that a stretch always holds an element.
const segment = 16 << 20

// stretch brings the blocks from lo on into reach, of hi-lo as many as a segment holds if
// the file is not mapped. What it returns lives as long as the mapping and until sc is used
// again. Of a block that sc holds it has no bytes.
func (t Tensor) stretch(sc *scratch, lo, hi uint64) (stretch, error) {
	s := stretch{tensor: t, table: t.blocks(), lo: lo, hi: hi}
	if hi == lo+1 && sc.holds(t.desc, lo) {
		return s, nil
	}
	if t.file.mapping.Aliased() {
		if s.table.Known() < hi { // the method value is an allocation
			if err := s.table.Reach(hi, t.storedSlice); err != nil {
				return s, err
			}
		}
		off, size := s.table.Span(lo, hi)
		var err error
		s.stored, err = t.storedSlice(off, size)
		return s, err
	}
	return s, s.read(sc)
}

// storedSlice is n of the stored bytes of a tensor whose file is in memory.
func (t Tensor) storedSlice(off, n uint64) ([]byte, error) {
	return t.file.mapping.Slice(t.desc.Offset+off, n)
}

// read reads as many of the blocks lo to hi-1 as a segment holds, and sets hi accordingly.
// Where their lengths are not known and they are many, or all that is left of the tensor,
// the lengths come along with them; otherwise those are read first, one by one, and nothing
// else is.
func (s *stretch) read(sc *scratch) error {
	t := s.tensor
	walk := func(off, n uint64) ([]byte, error) {
		b := sc.storedBytes(n)
		return b, t.file.readFull(b, t.desc.Offset+off)
	}
	const few = 4
	if s.table.Known() >= s.hi || s.hi < s.table.Count() && (s.hi-s.lo <= few || s.lo > s.table.Known()) {
		if err := s.table.Reach(s.hi, walk); err != nil {
			return err
		}
		n := sort.Search(int(s.hi-s.lo), func(i int) bool {
			_, size := s.table.Span(s.lo, s.lo+uint64(i)+1)
			return size > segment
		})
		s.hi = s.lo + uint64(n)
		var err error
		s.stored, err = walk(s.table.Span(s.lo, s.hi))
		return err
	}
	if err := s.table.Reach(s.lo, walk); err != nil {
		return err
	}
	off, size := s.estimate()
	var err error
	if s.stored, err = walk(off, min(segment, size)); err != nil {
		return err
	}
	end, err := s.table.Scan(s.lo, s.stored)
	s.hi = min(s.hi, end)
	return err
}

// estimate is where block lo begins and how many bytes the blocks up to hi take, if they are
// like those to come on average; one at least is whole. Of the last block it is certain.
func (s *stretch) estimate() (off, size uint64) {
	off, _ = s.table.Span(s.lo, s.lo)
	left, blocks := s.tensor.desc.Stored-off, s.table.Count()-s.lo
	if s.hi-s.lo == blocks {
		return off, left
	}
	size = left / blocks * (s.hi - s.lo)
	return off, min(left, max(size, lz4block.LengthBytes+lz4block.MaxStored))
}

// checkBlocks walks the first n blocks.
func (t Tensor) checkBlocks(n uint64) error {
	head := make([]byte, lz4block.LengthBytes)
	table := t.blocks()
	return mmapio.Guard(func() error {
		return cmp.Or(table.Empty(), table.Reach(n, func(off, n uint64) ([]byte, error) {
			return head[:n], t.file.readFull(head[:n], t.desc.Offset+off)
		}))
	})
}

// decode expands block i into dst, which takes all that it yields.
func (s *stretch) decode(sc *scratch, dst []byte, i uint64) error {
	return s.table.Decode(&sc.decoder, dst, s.stored, s.lo, i)
}

// block is what block i yields, in sc and until sc is used again.
func (s *stretch) block(sc *scratch, i uint64) ([]byte, error) {
	b := sc.block[:s.table.Yield(i)]
	if sc.holds(s.tensor.desc, i) {
		return b, nil
	}
	sc.tensor = nil
	if err := s.decode(sc, b, i); err != nil {
		return nil, err
	}
	sc.tensor, sc.number = s.tensor.desc, i
	return b, nil
}

// copy fills dst with the elements' bytes from off on, all of which the stretch holds.
func (s *stretch) copy(sc *scratch, dst []byte, off uint64) error {
	for len(dst) > 0 {
		i, skip := off/lz4block.Size, off%lz4block.Size
		n := min(s.table.Yield(i)-int(skip), len(dst))
		if n == s.table.Yield(i) && !sc.holds(s.tensor.desc, i) {
			if err := s.decode(sc, dst[:n], i); err != nil {
				return err
			}
		} else {
			b, err := s.block(sc, i)
			if err != nil {
				return err
			}
			copy(dst[:n], b[skip:])
		}
		dst, off = dst[n:], off+uint64(n)
	}
	return nil
}

// large reports whether s is worth more than one core.
func (s *stretch) large() bool {
	return s.hi-s.lo > copyBytes/lz4block.Size && runtime.GOMAXPROCS(0) > 1
}

// copyBytes is how much of a tensor a core decompresses at a time.
const copyBytes = 4 * lz4block.Size

// copyParallel is copy on all cores, where dst is large enough for that to pay.
func (s *stretch) copyParallel(sc *scratch, dst []byte, off uint64) error {
	if !s.large() {
		return s.copy(sc, dst, off)
	}
	parts := piecesOf(off%copyBytes + uint64(len(dst)))
	own := *s // for s to stay where it is in the case above
	base, end := off/copyBytes*copyBytes, off+uint64(len(dst))
	return onAllCores(parts, func(sc *scratch, i uint64) error {
		from, upto := max(off, base+i*copyBytes), min(end, base+(i+1)*copyBytes)
		return own.copy(sc, dst[from-off:upto-off], from)
	})
}

// readBlocks reads n bytes of the elements from off on.
func (t Tensor) readBlocks(to sink[byte], off, n uint64) error {
	if n == 0 {
		return t.blocks().Empty()
	}
	sc := takeScratch()
	defer sc.give()
	for end := off + n; off < end; {
		s, err := t.stretch(sc, off/lz4block.Size, lz4block.Count(end))
		if err != nil {
			return err
		}
		dst := to.room(off, min(end, s.hi*lz4block.Size)-off)
		if err := to.filled(off, dst, s.copyParallel(sc, dst, off)); err != nil {
			return err
		}
		off += uint64(len(dst))
	}
	return nil
}

// decodeBlocks fills dst with all the elements, whose blocks are stored.
func (t Tensor) decodeBlocks(dst, stored []byte) error {
	table := t.blocks()
	if t.desc.Raw == 0 {
		return table.Empty()
	}
	n, err := table.Scan(0, stored)
	if err != nil {
		return err
	}
	s := stretch{tensor: t, table: table, hi: n, stored: stored}
	sc := takeScratch()
	defer sc.give()
	return s.copyParallel(sc, dst, 0)
}
