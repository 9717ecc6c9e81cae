package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// fit changes t, of type To, into what the plan's format can hold. Numbers become F32, codes without known values
// keep their bits, and the outermost dimensions are joined if there are too many. t.Changed names the reasons.
func (t *Tensor) fit(p *Plan) {
	from, to := t.To, p.target
	switch {
	case t.hasScale && !to.hasScales:
		t.Changed = to.name + " has no scales of integers, the values are the same"
		t.expand()
	case t.hasScale && t.scale.Scale == 0:
		t.Changed = "a scale of 0, which " + to.name + " refuses, the values are the same"
		t.expand()
	case to.holds(from):
	case to.expands(from) && (to.onlyWeights || t.restored == nil && p.refuseCodes(t.source) == nil):
		t.Changed = fmt.Sprintf("%s has no %v, the values are the same", to.name, from)
		if !to.hasScales || !t.moveScale() {
			t.expand()
		}
	default:
		t.Changed = fmt.Sprintf("%s has no %v, the bits are the same", to.name, from)
		t.storeBits(to.integers)
	}
	t.joinDims(to)
}

// expand plans to write the values as F32. Package dequant expands every type that it supports to float32s.
func (t *Tensor) expand() {
	t.To, t.hasScale, t.Reencoded = layout.F32, false, true
}

// moveScale plans to write APR_Q8, a scale and then int8s, as int8s with a scale in the metadata. It
// reports false if t is of another type, or its scale is one that metadata cannot hold or cannot be read.
func (t *Tensor) moveScale() bool {
	head := make([]byte, t.To.HeadBytes())
	if len(head) == 0 || t.source.Elements() == 0 {
		return false
	}
	if _, err := t.source.ReadAt(head, 0); err != nil {
		return false // writing the tensor fails with this error
	}
	codec, err := dequant.ReadHead(t.To, head)
	d, scale, hasScale := codec.Elements()
	if s := float64(scale.Scale); err != nil || s == 0 || math.IsNaN(s) || math.IsInf(s, 0) {
		return false
	}
	t.To, t.scale, t.hasScale, t.headBytes = d, scale, hasScale, len(head)
	return true
}

// storeBits plans to write the bits of a type that the format lacks as integers of its width. Without such integers
// it plans one dimension of bytes. setOriginals adds the type and the shape to the metadata.
func (t *Tensor) storeBits(integers map[int]layout.DType) {
	d := integers[t.To.BlockBytes()]
	if d == layout.Invalid || t.To.BlockElems() != 1 {
		d, t.Shape = integers[1], []int{layout.Dim(t.source.RawBytes())}
	}
	t.standsFor, t.To = t.To, d
}

// joinDims joins the outermost dimensions to one if t has more than the format allows. Rows stay as they are.
func (t *Tensor) joinDims(to *target) {
	if len(t.Shape) <= to.maxDims {
		return
	}
	outer, inner := t.Shape[:len(t.Shape)-to.maxDims+1], t.Shape[len(t.Shape)-to.maxDims+1:]
	n, ok := layout.Elements(outer)
	if !ok || n > math.MaxInt {
		n = 0 // an inner dimension is 0
	}
	t.Shape = append([]int{int(n)}, inner...)
	if t.Changed != "" {
		t.Changed += "; "
	}
	t.Changed += fmt.Sprintf("%s has at most %d dimensions, the outermost are joined", to.name, to.maxDims)
}

// canReshape reports whether t, blocks in the source, becomes plain numbers, whose rows may have any length, and
// has the elements of shape.
func (t *Tensor) canReshape(to *target, shape []int) bool {
	n, ok := layout.Elements(shape)
	becomesPlain := t.From.Quantized() && (!t.To.Quantized() || to.expands(t.To))
	return ok && n == t.source.Elements() && becomesPlain
}

const originalsKey = "original_tensors"

// setOriginals sets the types and shapes that the format cannot hold, by name of tensor:
//
//	"original_tensors": {"rope.freqs": {"dtype": "C64", "shape": [64]}, "step": {"shape": []}}
func (p *Plan) setOriginals() {
	var all layout.Metadata
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.hasOriginal(p.target.hasScalars) {
			all = append(all, layout.Entry{Key: t.Name, Value: t.describeOriginal()})
		}
	}
	setObject(&p.Metadata, originalsKey, all)
}

// hasOriginal reports whether the new file cannot say the type or shape that the tensor has in the source.
func (t *Tensor) hasOriginal(hasScalars bool) bool {
	rank := len(t.FromShape())
	return t.standsFor != layout.Invalid || rank == 0 && !hasScalars || len(t.Shape) != rank
}

// describeOriginal returns t's type, if integers stand for it, and shape in the source as readOriginal reads them.
func (t *Tensor) describeOriginal() (md layout.Metadata) {
	if t.standsFor != layout.Invalid {
		md.Set("dtype", t.standsFor.String())
	}
	shape := make([]any, len(t.FromShape()))
	for i, n := range t.FromShape() {
		shape[i] = json.Number(strconv.Itoa(n))
	}
	md.Set("shape", shape)
	return md
}

// originalsOf returns what setOriginals has written into md, by name of tensor.
func originalsOf(md layout.Metadata) map[string]any {
	all := make(map[string]any)
	for _, e := range object(md, originalsKey) {
		if _, ok := all[e.Key]; !ok {
			all[e.Key] = e.Value
		}
	}
	return all
}

// readOriginal reads what describeOriginal wrote. It reports false for anything else.
func readOriginal(v any) (o original, ok bool) {
	md, _ := v.(layout.Metadata)
	shape, err := layout.Get[[]int](md, "shape")
	isNegative := func(n int) bool { return n < 0 }
	if err != nil || uint64(len(shape)) > (*layout.Limits)(nil).WithDefaults().Rank || slices.ContainsFunc(shape, isNegative) {
		return o, false
	}
	o.shape = shape
	if _, ok := md.Get("dtype"); !ok {
		return o, true
	}
	o.dtype, ok = layout.ParseDType(textAt(md, "dtype"))
	return o, ok
}

// restore sets From and restored to what t was before an earlier conversion, unless o does not fit the bytes. Only
// integers without a scale stand for another type.
func (t *Tensor) restore(o original) {
	dtype := o.dtype
	if dtype == layout.Invalid {
		dtype = t.From
	} else if t.hasScale || t.From.Kind() != layout.KindUint && t.From.Kind() != layout.KindInt {
		return
	}
	if size, err := dtype.Size(o.shape); err == nil && size == t.source.RawBytes() {
		t.From, t.restored = dtype, &o
	}
}
