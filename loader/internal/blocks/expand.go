package blocks

import (
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Codec turns elements into values.
type Codec interface {
	// Expand writes the values of whole blocks of the dtype to dst, without the first skip.
	Expand(dst []float32, src []byte, skip int) error
}

// Expand writes the values of n elements, one at least, of dtype d from element first on.
func Expand[C Codec](t Tensor, d layout.DType, c C, to mmapio.Destination[float32], first, n uint64) error {
	sc := takeScratch()
	defer sc.give()
	for upto := first + n; first < upto; {
		off, size := d.Span(first, upto-first)
		p, err := t.piece(sc, off/lz4block.Size, lz4block.Count(off+size))
		if err != nil {
			return err
		}
		next := upto
		if end := p.hi * lz4block.Size; end < off+size {
			next = elementsIn(d, end-uint64(d.HeadBytes()))
		}
		dst := to.Room(first, next-first)
		if err := to.Filled(first, dst, expandParallel(&p, d, c, sc, dst, first)); err != nil {
			return err
		}
		first = next
	}
	return nil
}

// elementsIn returns how many elements n bytes hold whole, from the start of one on.
func elementsIn(d layout.DType, n uint64) uint64 {
	return n / uint64(d.BlockBytes()) * uint64(d.BlockElems())
}

// expandParallel does what expand does, on all cores if that pays.
func expandParallel[C Codec](p *piece, d layout.DType, c C, sc *scratch, dst []float32, first uint64) error {
	if !p.large() {
		return expand(p, d, c, sc, dst, first)
	}
	own := *p // for p to stay off the heap in the case above
	step := elementsIn(d, partBytes(d))
	return onAllCores(step, first, uint64(len(dst)), func(sc *scratch, from, upto uint64) error {
		return expand(&own, d, c, sc, dst[from-first:upto-first], from)
	})
}

// partBytes returns how many bytes of elements a core expands at a time. A block of LZ4 and one
// of the dtype end there together, so that no two cores need the same one. Only if that would
// be many bytes, they do not.
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

// expand expands elements of blocks that p holds, one block of LZ4 after the other. A block of
// the dtype that lies across a border is put together in sc.
func expand[C Codec](p *piece, d layout.DType, c C, sc *scratch, dst []float32, first uint64) error {
	off, size := d.Span(first, uint64(len(dst)))
	elems, bytes := d.BlockElems(), d.BlockBytes()
	skip, carried := int(first%uint64(elems)), 0
	for end := off + size; len(dst) > 0; {
		i := off / lz4block.Size
		if _, err := p.block(sc, i); err != nil {
			return err
		}
		from := carryRoom - carried + int(off%lz4block.Size) // one of the two is 0
		upto := carryRoom + int(min(end-i*lz4block.Size, uint64(p.table.Yield(i))))
		src := sc.buf[from:upto]
		whole := len(src) / bytes * bytes
		if whole > 0 {
			n := min(whole/bytes*elems-skip, len(dst))
			if err := c.Expand(dst[:n], src[:whole], skip); err != nil {
				return err
			}
			dst, skip = dst[n:], 0
		}
		carried = copy(sc.buf[carryRoom-(len(src)-whole):carryRoom], src[whole:])
		off = (i + 1) * lz4block.Size
	}
	return nil
}
