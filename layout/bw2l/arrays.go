package bw2l

import (
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// layers reads the layers of a section.
func (d *decoder) layers(c *layout.Cursor, s *Section) {
	s.firstLayer = len(d.file.layers)
	n := d.count(c, "layer_count", minLayer(d.file.version))
	for i := uint64(0); i < n && c.Err() == nil; i++ {
		d.layer(c)
	}
	s.layers = len(d.file.layers) - s.firstLayer
}

func (d *decoder) layer(c *layout.Cursor) {
	l := layer{arch: skip(c, "arch", c.U64("arch"))}
	scaleAt := c.Offset()
	if d.file.version == 1 {
		l.quant = layout.Quant{Scale: c.F32("scale"), Zero: c.I64("offset")}
	}
	n := d.count(c, "param_count", minArray(d.file.version))
	integers := false
	for i := uint64(0); i < n && c.Err() == nil; i++ {
		integers = d.array(c).Kind() == layout.KindInt || integers
	}
	if d.file.version == 1 && integers && !usable(l.quant.Scale) {
		c.Fail(scaleAt, "scale", layout.ErrInvalid, "%v, but the layer has integers", l.quant.Scale)
	}
	l.params = int(n)
	d.file.layers = append(grown(d.file.layers), l)
}

// usable reports whether a scale makes numbers of integers.
func usable(scale float32) bool {
	s := float64(scale)
	return s != 0 && !math.IsNaN(s) && !math.IsInf(s, 0)
}

// array reads the header of an array, steps over its elements, and says their type.
func (d *decoder) array(c *layout.Cursor) layout.DType {
	a := array{at: c.Offset()}
	name := str8(c, "type")
	if a.dtype = elementType(name); a.dtype == layout.Invalid {
		c.Fail(a.at, "type", layout.ErrUnsupported, "%s is no type of elements", layout.Quote(name))
		return layout.Invalid
	}
	width := uint64(a.dtype.BlockBytes())
	lenAt := c.Offset()
	n := c.U64("array_len")
	c.Fits(lenAt, "array_len", n, width)
	a.rank = d.shape(c, n)
	if c.Err() != nil {
		return layout.Invalid
	}
	elements := skip(c, "data", n*width) // which Fits has compared with the file
	a.data, a.size = elements.off, elements.size
	d.arrays = append(grown(d.arrays), a)
	return a.dtype
}

// shape notes the shape of an array of n elements, and returns its rank.
func (d *decoder) shape(c *layout.Cursor, n uint64) (rank uint8) {
	if d.file.version > 1 {
		rank = d.dims(c, n)
	}
	if rank == 0 {
		rank = 1
		d.shapes = append(grown(d.shapes), n)
	}
	return rank
}

func (d *decoder) dims(c *layout.Cursor, n uint64) uint8 {
	at := c.Offset()
	rank := c.U8("ndim")
	if most := d.file.lim.Rank; uint64(rank) > most {
		c.Fail(at, "ndim", layout.ErrLimit, "%d dimensions, more than %d", rank, most)
		return rank
	}
	first := len(d.shapes)
	for range rank {
		d.shapes = append(grown(d.shapes), c.U64("dims"))
	}
	shape := d.shapes[first:]
	slices.Reverse(shape)
	if product, ok := layout.Elements(shape); rank > 0 && (!ok || product != n) {
		c.Fail(at+1, "dims", layout.ErrInvalid, "%v in reverse have another product than %d, the array_len", shape, n)
	}
	return rank
}

// grown has room for one more element. Where append would take a quarter more, it takes
// twice the memory: what a decoder allocates in all then stays close to what it needs.
func grown[T any](s []T) []T {
	if len(s) == cap(s) {
		return slices.Grow(s, max(8, len(s)))
	}
	return s
}
