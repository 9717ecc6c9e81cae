package bw2l

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// readLayers reads the headers of the layers of s, and of their arrays, and notes in s which layers of the file these are.
func (d *decoder) readLayers(c *layout.Cursor, s *Section) {
	s.firstLayer = len(d.file.layers)
	n := d.readCount(c, "layer_count", len(d.file.layers), minLayer(d.file.version))
	for i := uint64(0); i < n && c.Err() == nil; i++ {
		d.readLayer(c)
	}
	s.layers = len(d.file.layers) - s.firstLayer
}

// readLayer reads a layer and the headers of its arrays. It sets c's error if there are too many, or if the layer has integers and no usable
// scale.
func (d *decoder) readLayer(c *layout.Cursor) {
	l := layer{arch: skipRange(c, "arch", c.U64("arch"))}
	scaleAt := c.Offset()
	if d.file.version == 1 {
		l.quant = layout.Quant{Scale: math.Float32frombits(c.U32("scale")), Zero: int64(c.U64("offset"))}
	}
	paramsAt := c.Offset()
	n := d.readCount(c, "param_count", len(d.arrays), minArray(d.file.version))
	if all := uint64(len(d.arrays)) + n; all > layout.MaxRecords {
		c.Fail(paramsAt, "param_count", layout.ErrLimit, "%d arrays, more than %d", all, layout.MaxRecords)
	}
	integers := false
	for i := uint64(0); i < n && c.Err() == nil; i++ {
		integers = d.readArray(c).Kind() == layout.KindInt || integers
	}
	if d.file.version == 1 && integers && !isUsable(l.quant.Scale) {
		c.Fail(scaleAt, "scale", layout.ErrInvalid, "%v, but the layer has integers", l.quant.Scale)
	}
	l.params = int(n)
	d.file.layers = append(d.file.layers, l)
}

// isUsable reports whether a scale is finite and not 0.
func isUsable(scale float32) bool {
	s := float64(scale)
	return s != 0 && !math.IsNaN(s) && !math.IsInf(s, 0)
}

// readArray reads the header of an array, skips its elements, and returns their type.
func (d *decoder) readArray(c *layout.Cursor) layout.DType {
	a := array{at: c.Offset()}
	typeLen := uint64(c.U8("type"))
	head := c.Take("type", typeLen+8) // and array_len
	if head == nil {
		return layout.Invalid
	}
	if a.dtype = elementTypes[string(head[:typeLen])]; a.dtype == layout.Invalid {
		c.Fail(a.at, "type", layout.ErrUnsupported, "%s is no type of elements", layout.Quote(head[:typeLen]))
		return layout.Invalid
	}
	n, width := binary.LittleEndian.Uint64(head[typeLen:]), uint64(a.dtype.BlockBytes())
	c.Fits(a.at+1+typeLen, "array_len", n, width)
	a.rank = d.readShape(c, n)
	a.data, a.size = c.Offset(), n*width // Fits has compared the product with the file
	c.Skip("data", a.size)
	if c.Err() != nil {
		return layout.Invalid
	}
	d.arrays = append(d.arrays, a)
	return a.dtype
}

// readShape stores the shape of an array of n elements, and returns its rank.
func (d *decoder) readShape(c *layout.Cursor, n uint64) (rank uint8) {
	if d.file.version > 1 {
		rank = d.readDims(c, n)
	}
	if rank == 0 {
		rank = 1
		d.shapes = append(d.shapes, layout.Dim(n))
	}
	return rank
}

// readDims stores the dimensions of an array of n elements and returns their number. It sets c's error if their product is not n.
func (d *decoder) readDims(c *layout.Cursor, n uint64) uint8 {
	at := c.Offset()
	rank := c.U8("ndim")
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
	if product, ok := layout.Elements(shape); rank > 0 && (!ok || product != n) {
		c.Fail(at+1, "dims", layout.ErrInvalid, "%v in reverse have another product than %d, the array_len", shape, n)
	}
	return rank
}
