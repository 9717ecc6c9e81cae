package blocks

import (
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/mmapio"
)

// Expand writes the values of n elements, one at least, from element first on.
func Expand(t Tensor, c dequant.Codec, to mmapio.Destination[float32], first, n uint64) error {
	sc := takeScratch()
	defer sc.give()
	head, _ := c.Span(0, 0)
	for upto := first + n; first < upto; {
		off, size := c.Span(first, upto-first)
		p, err := t.piece(sc, off/lz4block.Size, lz4block.Count(off+size))
		if err != nil {
			return err
		}
		next := upto
		if end := p.hi * lz4block.Size; end < off+size {
			next = elementsIn(c, end-head)
		}
		dst := to.Room(first, next-first)
		if err := to.Filled(first, dst, expandParallel(&p, c, sc, dst, first)); err != nil {
			return err
		}
		first = next
	}
	return nil
}

// elementsIn returns how many elements n bytes hold whole, from the start of one on.
func elementsIn(c dequant.Codec, n uint64) uint64 {
	d, _, _ := c.Elements()
	return n / uint64(d.BlockBytes()) * uint64(d.BlockElems())
}

// expandParallel does what expand does, on all cores if that pays.
func expandParallel(p *piece, c dequant.Codec, sc *scratch, dst []float32, first uint64) error {
	if !p.large() {
		return expand(p, c, sc, dst, first)
	}
	own := *p // for p to stay off the heap in the case above
	return onAllCores(elementsIn(c, partBytes(c)), first, uint64(len(dst)), func(sc *scratch, from, upto uint64) error {
		return expand(&own, c, sc, dst[from-first:upto-first], from)
	})
}

// partBytes returns how many bytes of elements a core expands at a time. A block of LZ4 and one
// of the dtype end there together, so that no two cores need the same one. Only if that would
// be many bytes, they do not.
func partBytes(c dequant.Codec) uint64 {
	const least, most = 8, 24
	d, _, _ := c.Elements()
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
func expand(p *piece, c dequant.Codec, sc *scratch, dst []float32, first uint64) error {
	off, size := c.Span(first, uint64(len(dst)))
	d, _, _ := c.Elements()
	elems, bytes, carried := d.BlockElems(), d.BlockBytes(), 0
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
			n := min(whole/bytes*elems-int(first%uint64(elems)), len(dst))
			if err := c.Expand(dst[:n], src[:whole], first, 1); err != nil {
				return err
			}
			dst, first = dst[n:], first+uint64(n)
		}
		carried = copy(sc.buf[carryRoom-(len(src)-whole):carryRoom], src[whole:])
		off = (i + 1) * lz4block.Size
	}
	return nil
}
