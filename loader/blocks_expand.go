package loader

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/lz4block"
)

// expandBlocks writes the values of n elements, one at least, of a compressed tensor.
func (e *expander) expandBlocks(t Tensor, to sink[float32], first, n uint64) error {
	sc := takeScratch()
	defer sc.give()
	for upto := first + n; first < upto; {
		off, size := t.span(first, upto-first)
		s, err := t.stretch(sc, off/lz4block.Size, lz4block.Count(off+size))
		if err != nil {
			return err
		}
		next := upto
		if end := s.hi * lz4block.Size; end < off+size {
			next = e.elementsIn(end - e.head)
		}
		dst := to.room(first, next-first)
		if err := to.filled(first, dst, e.expandParallel(sc, &s, dst, first)); err != nil {
			return err
		}
		first = next
	}
	return nil
}

// elementsIn is how many elements n bytes hold whole, the first of which begins one.
func (e *expander) elementsIn(n uint64) uint64 {
	return n / uint64(e.dtype.BlockBytes()) * uint64(e.dtype.BlockElems())
}

// expandParallel is expandStretch on all cores, where dst is large enough for that to pay.
func (e *expander) expandParallel(sc *scratch, s *stretch, dst []float32, first uint64) error {
	if !s.large() {
		return e.expandStretch(sc, s, dst, first)
	}
	step := e.elementsIn(partBytes(e.dtype))
	parts := (first%step + uint64(len(dst)) + step - 1) / step
	own, expand := *s, *e // for s and e to stay where they are in the case above
	base, end := first/step*step, first+uint64(len(dst))
	return onAllCores(parts, func(sc *scratch, i uint64) error {
		from, upto := max(first, base+i*step), min(end, base+(i+1)*step)
		return expand.expandStretch(sc, &own, dst[from-first:upto-first], from)
	})
}

// partBytes is how much of a tensor a core expands at a time: where it can be had without
// much, a number of bytes at which a block of LZ4 and one of the dtype end together, so that
// no two cores need the same one.
func partBytes(d layout.DType) uint64 {
	const least, most = 8, 24
	odd := uint64(d.BlockBytes())
	for odd%2 == 0 {
		odd /= 2
	}
	if odd > most {
		return most * lz4block.Size
	}
	return (least + odd - 1) / odd * odd * lz4block.Size
}

// expandStretch expands elements of blocks that s holds, one block of LZ4 after the other. A
// block of the dtype that lies across a border is put together in sc.
func (e *expander) expandStretch(sc *scratch, s *stretch, dst []float32, first uint64) error {
	off, size := s.tensor.span(first, uint64(len(dst)))
	elems, bytes := e.dtype.BlockElems(), e.dtype.BlockBytes()
	skip, carried := int(first%uint64(elems)), 0
	for end := off + size; len(dst) > 0; {
		i := off / lz4block.Size
		if _, err := s.block(sc, i); err != nil {
			return err
		}
		from := carryRoom - carried + int(off%lz4block.Size) // one of the two is 0
		upto := carryRoom + int(min(end-i*lz4block.Size, uint64(s.table.Yield(i))))
		src := sc.buf[from:upto]
		whole := len(src) / bytes * bytes
		if whole > 0 {
			n := min(whole/bytes*elems-skip, len(dst))
			if err := e.valuesSerial(dst[:n], src[:whole], skip); err != nil {
				return err
			}
			dst, skip = dst[n:], 0
		}
		carried = copy(sc.buf[carryRoom-(len(src)-whole):carryRoom], src[whole:])
		off = (i + 1) * lz4block.Size
	}
	return nil
}
