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

// fit changes t into what the plan's format can hold. Codes whose values are not known keep their bits, unless all tensors pass
// for weights.
func (t *Tensor) fit(p *Plan) {
	from, to := t.To, p.target
	switch {
	case t.scaled && !to.scales:
		t.Changed = to.name + " has no scales of integers, the values are the same"
		t.expand()
	case t.scaled && t.quant.Scale == 0:
		t.Changed = "a scale of 0, which " + to.name + " refuses, the values are the same"
		t.expand()
	case to.holds(from):
	case to.expands(from) && (to.weights || t.restored == nil && p.refuse(t.source) == nil):
		t.Changed = fmt.Sprintf("%s has no %v, the values are the same", to.name, from)
		if !to.scales || !t.scaledInts() {
			t.expand()
		}
	default:
		t.Changed = fmt.Sprintf("%s has no %v, the bits are the same", to.name, from)
		t.standIn(to.integers)
	}
	t.fold(to)
}

// expand makes float32s of the values. Package dequant expands every type that it knows to these.
func (t *Tensor) expand() {
	t.To, t.scaled, t.Reencoded = layout.F32, false, true
}

// scaledInts turns APR_Q8, a scale and then int8s, into int8s with a scale in the metadata. It
// reports false if the metadata cannot hold the scale.
func (t *Tensor) scaledInts() bool {
	head := make([]byte, t.To.HeadBytes())
	if len(head) == 0 || t.source.Elements() == 0 {
		return false
	}
	if _, err := t.source.ReadAt(head, 0); err != nil {
		return false // whoever reads the rest will say why
	}
	codec, err := dequant.ReadHead(t.To, head)
	d, quant, scaled := codec.Elements()
	if s := float64(quant.Scale); err != nil || s == 0 || math.IsNaN(s) || math.IsInf(s, 0) {
		return false
	}
	t.To, t.quant, t.scaled, t.skip = d, quant, scaled, len(head)
	return true
}

// standIn keeps the bits of a type that the target does not know: as integers of its width or,
// without such, as bytes. setOriginals notes the real type and shape in the metadata.
func (t *Tensor) standIn(integers map[int]layout.DType) {
	d := integers[t.To.BlockBytes()]
	if d == layout.Invalid || t.To.BlockElems() != 1 {
		d, t.Shape = integers[1], []int{layout.Dim(t.source.RawBytes())}
	}
	t.bits, t.To = t.To, d
}

// fold joins the outermost dimensions to one if there are more than the format has. Rows stay as they are.
func (t *Tensor) fold(to *target) {
	dims := to.dims
	if len(t.Shape) <= dims {
		return
	}
	outer, inner := t.Shape[:len(t.Shape)-dims+1], t.Shape[len(t.Shape)-dims+1:]
	n, ok := layout.Elements(outer)
	if !ok || n > math.MaxInt {
		n = 0 // an inner dimension is 0
	}
	t.Shape = append([]int{int(n)}, inner...)
	if t.Changed != "" {
		t.Changed += "; "
	}
	t.Changed += fmt.Sprintf("%s has at most %d dimensions, the outermost are joined", to.name, dims)
}

// original describes a tensor whose file cannot: the type that integers stand for, or Invalid,
// and the shape.
type original struct {
	dtype layout.DType
	shape []int
}

const originalsKey = "original_tensors"

// setOriginals enters the types and shapes that the format cannot hold, by name of tensor:
//
//	"original_tensors": {"rope.freqs": {"dtype": "C64", "shape": [64]}, "step": {"shape": []}}
func setOriginals(md *layout.Metadata, tensors []Tensor, scalars bool) {
	setObject(md, originalsKey, nil)
	all := layout.Object(func(yield func(string, any) bool) {
		var last *Tensor
		var said layout.Metadata // of it
		for i := range tensors {
			t := &tensors[i]
			if !t.hasOriginal(scalars) {
				continue
			}
			if last == nil || last.bits != t.bits || !slices.Equal(last.FromShape(), t.FromShape()) {
				said = t.describeOriginal()
			}
			if last = t; !yield(t.Name, said) {
				return
			}
		}
	})
	if hasMembers(all) {
		md.Set(originalsKey, all)
	}
}

// hasOriginal reports whether the new file cannot say what the tensor was.
func (t *Tensor) hasOriginal(scalars bool) bool {
	return t.bits != layout.Invalid || len(t.FromShape()) == 0 && !scalars || len(t.Shape) != len(t.FromShape())
}

func (t *Tensor) describeOriginal() (md layout.Metadata) {
	if t.bits != layout.Invalid {
		md.Set("dtype", t.bits.String())
	}
	shape := make([]any, len(t.FromShape()))
	for i, n := range t.FromShape() {
		shape[i] = json.Number(strconv.Itoa(n))
	}
	md.Set("shape", shape)
	return md
}

// originals finds what setOriginals has written about a tensor. It reads it only then.
type originals struct {
	list  layout.Metadata
	names *layout.Names
	comfy map[string][]int // what ComfyUI-GGUF says of the shapes of blocks
}

func originalsOf(md layout.Metadata) originals {
	list := object(md, originalsKey)
	all := originals{list: list, names: layout.NewNames(len(list))}
	for i := range list {
		p := all.names.Probe(layout.HashName(list[i].Key))
		for _, ok := p.Next(); ok; _, ok = p.Next() {
		}
		p.Add(i)
	}
	return all
}

// find returns what is said of a tensor. It reports false for nothing, and for what makes no sense.
func (all *originals) find(name string) (o original, ok bool) {
	if len(all.list) == 0 {
		return o, false
	}
	for p := all.names.Probe(layout.HashName(name)); ; {
		i, ok := p.Next()
		if !ok {
			return o, false
		}
		if all.list[i].Key == name {
			return readOriginal(all.list[i].Value)
		}
	}
}

func readOriginal(v any) (o original, ok bool) {
	md, _ := v.(layout.Metadata)
	shape, ok := parseShape(md)
	if !ok {
		return o, false
	}
	dtype := layout.Invalid
	if text, there := md.Get("dtype"); there {
		s, _ := text.(string)
		if dtype, ok = layout.ParseDType(s); !ok {
			return o, false
		}
	}
	return original{dtype, shape}, true
}

func parseShape(o layout.Metadata) (shape []int, ok bool) {
	v, _ := o.Get("shape")
	list, ok := v.([]any)
	if !ok || uint64(len(list)) > (*layout.Limits)(nil).WithDefaults().Rank {
		return nil, false
	}
	shape = []int{}
	for _, v := range list {
		text, _ := v.(json.Number)
		n, err := strconv.Atoi(string(text))
		if err != nil || n < 0 {
			return nil, false
		}
		shape = append(shape, n)
	}
	return shape, true
}

// restore undoes what an earlier conversion did to a tensor that it could not store as it was.
func (t *Tensor) restore(o original) {
	dtype := o.dtype
	if dtype == layout.Invalid {
		dtype = t.From
	} else if t.scaled || t.From.Kind() != layout.KindUint && t.From.Kind() != layout.KindInt {
		return
	}
	if size, err := dtype.Size(o.shape); err == nil && size == t.source.RawBytes() {
		t.From, t.restored = dtype, &o
	}
}
