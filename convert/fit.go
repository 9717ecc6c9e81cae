package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// fitTarget changes type, scale and shape of t to what the new format can hold. It sets t.Changed to the reasons. Numbers
// whose type or scale the format lacks become F32, or int8s with a scale: their values stay. If the format lacks the type of
// codes whose values are unknown, the codes become integers of the same bits. Types restored from integers become such
// integers too. If readers take all tensors for weights, only types that cannot be expanded become integers. isDecoded is
// false for codes that cannot be decoded. If t has too many dimensions, fitTarget joins the outermost.
func (t *Tensor) fitTarget(to *target, isDecoded bool) {
	from := t.To
	switch {
	case t.hasScale && !to.hasScales:
		t.Changed = to.name + " has no scales of integers, the values are the same"
		t.expand()
	case t.hasScale && t.scale.Scale == 0:
		t.Changed = "a scale of 0, which " + to.name + " refuses, the values are the same"
		t.expand()
	case to.hasType(from):
	case to.expands(from) && (to.readsAllAsWeights || t.original == nil && isDecoded):
		t.Changed = fmt.Sprintf("%s has no %v, the values are the same", to.name, from)
		if !to.hasScales || !t.moveScale() {
			t.expand()
		}
	default:
		t.Changed = fmt.Sprintf("%s has no %v, the bits are the same", to.name, from)
		d := to.integers[from.BlockBytes()]
		if d == layout.Invalid || from.BlockElems() != 1 { // one dimension of bytes, for which every format has a type
			d, t.Shape = to.integers[1], []int{layout.Dim(t.source.RawBytes())}
		}
		t.standsFor, t.To = from, d // setOriginals notes standsFor
	}
	t.joinDims(to)
}

// expand plans to write the values as F32. Package dequant expands every type that it supports to float32s.
func (t *Tensor) expand() {
	t.To, t.hasScale, t.Reencoded = layout.F32, false, true
}

// moveScale plans to write APR_Q8, which is a scale and then int8s, as int8s with that scale in the metadata. It then returns
// true. For other types, and without elements, it changes nothing and returns false. The same holds if the scale is 0, not
// finite or unreadable.
func (t *Tensor) moveScale() bool {
	head := make([]byte, t.To.HeadBytes())
	if len(head) == 0 || t.source.Elements() == 0 {
		return false
	}
	if _, err := t.source.ReadAt(head, 0); err != nil {
		return false // writing the tensor fails with this error
	}
	codec, err := dequant.ReadHead(t.To, head)
	d, scale, hasScale := codec.Elements() // zero on an error
	if s := float64(scale.Scale); err != nil || s == 0 || math.IsNaN(s) || math.IsInf(s, 0) {
		return false
	}
	t.To, t.scale, t.hasScale, t.headBytes = d, scale, hasScale, uint8(len(head))
	return true
}

// joinDims joins the outermost dimensions of t to one if it has more than the format allows, and adds that to t.Changed.
// Rows stay as they are.
func (t *Tensor) joinDims(to *target) {
	if len(t.Shape) <= to.maxDims {
		return
	}
	outer, inner := t.Shape[:len(t.Shape)-to.maxDims+1], t.Shape[len(t.Shape)-to.maxDims+1:]
	n, ok := layout.Elements(outer)
	if !ok || n > math.MaxInt {
		n = 0 // more rows than an int counts exist only if an inner dimension is 0
	}
	t.Shape = append([]int{int(n)}, inner...)
	if t.Changed != "" {
		t.Changed += "; "
	}
	t.Changed += fmt.Sprintf("%s has at most %d dimensions, the outermost are joined", to.name, to.maxDims)
}

const originalsKey = "original_tensors"

// setOriginals sets in Metadata the source's types and shapes that the new format cannot hold, by name of tensor. They
// replace the originals of an earlier conversion:
//
//	"original_tensors": {"rope.freqs": {"dtype": "C64", "shape": [64]}, "step": {"shape": []}}
func (p *Plan) setOriginals() {
	var all layout.Metadata
	for i := range p.Tensors {
		t := &p.Tensors[i]
		shape := t.FromShape()
		if t.standsFor == layout.Invalid && len(t.Shape) == len(shape) && (len(shape) > 0 || p.target.hasScalars) {
			continue
		}
		var md layout.Metadata
		if t.standsFor != layout.Invalid {
			md.Set("dtype", t.standsFor.String())
		}
		dims := make([]any, len(shape))
		for i, n := range shape {
			dims[i] = json.Number(strconv.Itoa(n))
		}
		md.Set("shape", dims)
		all = append(all, layout.Entry{Key: t.Name, Value: md})
	}
	setObject(&p.Metadata, originalsKey, all)
}

// restore gives t the type and the shape that it had before an earlier conversion. v is what setOriginals has written of them, and is
// not trusted. restore changes nothing if the type is unknown, or if the shape is missing, negative or of too many dimensions. It
// changes nothing if a tensor of that type and shape takes another number of bytes than t. It changes nothing if v has a type, and t has
// a scale or is no tensor of integers.
func (t *Tensor) restore(v any) {
	md, isObject := v.(layout.Metadata)
	if !isObject { // as for almost all tensors
		return
	}
	shape, err := layout.Get[[]int](md, "shape")
	if err != nil || uint64(len(shape)) > (*layout.Limits)(nil).WithDefaults().Rank {
		return
	}
	dtype := t.From
	if _, hasType := md.Get("dtype"); hasType {
		isInteger := t.From.Kind() == layout.KindUint || t.From.Kind() == layout.KindInt
		if dtype, _ = layout.ParseDType(textAt(md, "dtype")); t.hasScale || !isInteger {
			return
		}
	}
	if size, err := dtype.Size(shape); err == nil && size == t.source.RawBytes() { // unknown types and negative shapes have no size
		t.From, t.original = dtype, &shape
	}
}
