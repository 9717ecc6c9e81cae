package bw2l

import (
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// readLayer reads layer i of a section and the headers of its arrays. It sets c's error if there are too many, or if the layer has integers
// and no usable scale.
func (d *decoder) readLayer(c *layout.Cursor, i int) {
	l := layer{arch: skipRange(c, "arch", c.U64("arch"))}
	scaleAt := c.Offset()
	if d.file.version == 1 {
		l.quant = layout.Quant{Scale: math.Float32frombits(c.U32("scale")), Zero: int64(c.U64("offset"))}
	}
	paramsAt := c.Offset()
	n := d.readCount(c, "param_count", len(d.arrays), minArray[d.file.version])
	if all := uint64(len(d.arrays)) + n; all > layout.MaxRecords {
		c.Fail(paramsAt, "param_count", layout.ErrLimit, "%d arrays, more than %d", all, layout.MaxRecords)
	}
	integers := false
	for j := uint64(0); j < n && c.Err() == nil; j++ {
		integers = d.readArray(c, i, int(j)).Kind() == layout.KindInt || integers
	}
	if x := float64(l.quant.Scale); d.file.version == 1 && integers && (x == 0 || math.IsNaN(x) || math.IsInf(x, 0)) {
		c.Fail(scaleAt, "scale", layout.ErrInvalid, "%v, but the layer has integers", x)
	}
	l.params = int(n)
	d.file.layers = append(d.file.layers, l)
}

// readArray reads the header of an array of the section that is read, skips its elements, and returns their type. In a section of layers it
// is array param of a layer.
func (d *decoder) readArray(c *layout.Cursor, layer, param int) layout.DType {
	a := array{at: c.Offset(), section: int32(len(d.file.Sections)), layer: int32(layer), param: int32(param)}
	name := str8(c, "type")
	at := c.Offset()
	n := c.U64("array_len")
	if a.dtype = elementTypes[string(name)]; c.Err() == nil && a.dtype == layout.Invalid {
		c.Fail(a.at, "type", layout.ErrUnsupported, "%s is no type of elements", layout.Quote(name))
	}
	if c.Err() != nil {
		return layout.Invalid
	}
	width := uint64(a.dtype.BlockBytes())
	c.Fits(at, "array_len", n, width)
	a.rank = d.readShape(c, n)
	a.data = c.Offset()
	c.Skip("data", n*width) // Fits has compared the product with the file
	if c.Err() != nil {
		return layout.Invalid
	}
	d.arrays = append(d.arrays, a)
	return a.dtype
}

// readShape stores the shape of an array of n elements, and returns its rank. It sets c's error if the dimensions have another product.
func (d *decoder) readShape(c *layout.Cursor, n uint64) (rank uint8) {
	at := c.Offset()
	if d.file.version > 1 {
		rank = c.U8("ndim")
	}
	if rank == 0 {
		d.shapes = append(d.shapes, layout.Dim(n))
		return 1
	}
	if limit := d.file.lim.Rank; uint64(rank) > limit {
		c.Fail(at, "ndim", layout.ErrLimit, "%d dimensions, more than %d", rank, limit)
		return rank
	}
	first := len(d.shapes)
	for range rank {
		d.shapes = append(d.shapes, layout.Dim(c.U64("dims")))
	}
	shape := d.shapes[first:]
	slices.Reverse(shape)
	if product, ok := layout.Elements(shape); !ok || product != n {
		c.Fail(at+1, "dims", layout.ErrInvalid, "%v in reverse have another product than %d, the array_len", shape, n)
	}
	return rank
}
