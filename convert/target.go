package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/safetensors"
)

// target is what a format that is written can say of a tensor.
type target struct {
	name    string
	holds   func(layout.DType) bool
	scales  bool // of tensors of integers
	dims    int  // the most dimensions of a tensor
	scalars bool // tensors without dimensions
	output  func(path string, plan []encoding, md layout.Metadata, opts *Options) (*output, layout.Metadata, error)
}

var (
	apr2Target        = target{"APR2", apr2.Holds, true, apr2.MaxDims, false, newOutput}
	safeTensorsTarget = target{"SafeTensors", safetensors.Holds, false, math.MaxInt, true, newSafeTensorsOutput}
)

var targets = map[layout.Format]*target{layout.APR2: &apr2Target, layout.SafeTensors: &safeTensorsTarget}

// canHave reports whether tensors may be re-encoded to d.
func (to *target) canHave(d layout.DType) bool { return to.holds(d) && (d != layout.I8 || to.scales) }

// Changed is a tensor that is written as another type because the new format has no way to
// hold it as it is stored. No value is lost by that, and no bit of what has no value.
type Changed struct {
	Name     string
	From, To layout.DType
	Reason   string
}

// fit makes e what the target can hold.
func (p *planner) fit(e *encoding) {
	from, reason := e.dtype, ""
	switch {
	case e.scaled && !p.target.scales:
		reason = p.target.name + " has no scales of integers, the values are the same"
		e.expand()
	case e.scaled && e.quant.Scale == 0:
		reason = "a scale of 0, which " + p.target.name + " refuses, the values are the same"
		e.expand()
	case p.target.holds(e.dtype):
	case e.dtype.Quantized() && dequant.Supported(e.dtype):
		reason = fmt.Sprintf("%s has no %v, the values are the same", p.target.name, e.dtype)
		if !p.target.scales || !e.scaledInts() {
			e.expand()
		}
	default:
		reason = fmt.Sprintf("%s has no %v, the bits are the same", p.target.name, e.dtype)
		e.standIn()
	}
	if reason != "" {
		p.changed = append(p.changed, Changed{e.tensor.Name(), from, e.dtype, reason})
	}
	if len(e.shape) > p.target.dims {
		e.fold(p.target.dims)
	}
}

// expand writes the values as float32, which holds those of every type that package dequant
// knows, as it gives them.
func (e *encoding) expand() {
	e.dtype, e.scaled, e.asIs = layout.F32, false, false
}

// scaledInts makes APR_Q8, a scale and then int8s, int8s with a scale in the metadata. That is
// not possible with a scale that metadata cannot hold.
func (e *encoding) scaledInts() bool {
	head := make([]byte, e.dtype.HeadBytes())
	if len(head) == 0 || e.tensor.Elements() == 0 {
		return false
	}
	if _, err := e.tensor.ReadAt(head, 0); err != nil {
		return false // whoever reads the rest will say why
	}
	d, quant := dequant.ReadHead(e.dtype, head)
	if s := float64(quant.Scale); s == 0 || math.IsNaN(s) || math.IsInf(s, 0) {
		return false
	}
	e.dtype, e.quant, e.scaled, e.skip = d, quant, true, len(head)
	return true
}

// unsigned are integers by their size in bytes.
var unsigned = map[int]layout.DType{1: layout.U8, 2: layout.U16, 4: layout.U32, 8: layout.U64}

// standIn keeps the bits of a type that the target does not know as unsigned integers of its
// width or, where there are none, as bytes. The type and shape that they stand for go into the
// metadata: see setOriginals.
func (e *encoding) standIn() {
	d := unsigned[e.dtype.BlockBytes()]
	if d == layout.Invalid || e.dtype.BlockElems() != 1 {
		d, e.shape = layout.U8, []uint64{e.tensor.RawBytes()}
	}
	e.original.dtype, e.dtype = e.dtype, d
}

// fold makes one dimension of the outermost ones. Rows stay what they are.
func (e *encoding) fold(dims int) {
	outer, inner := e.shape[:len(e.shape)-dims+1], e.shape[len(e.shape)-dims+1:]
	n, ok := layout.Elements(outer)
	if !ok {
		n = 0 // another dimension is
	}
	e.shape = append([]uint64{n}, inner...)
}

// original is what a tensor is, where the file cannot say so: the type that integers stand for,
// or Invalid, and the shape.
type original struct {
	dtype layout.DType
	shape []uint64
}

const originalsKey = "original_tensors"

// setOriginals writes down the types and shapes that the format cannot hold, for every such
// tensor by its name:
//
//	"original_tensors": {"rope.freqs": {"dtype": "C64", "shape": [64]}, "step": {"shape": []}}
func setOriginals(md *layout.Metadata, plan []encoding, scalars bool) {
	list := layout.Metadata{}
	for i := range plan {
		if o := plan[i].describeOriginal(scalars); o != nil {
			list = append(list, layout.Entry{Key: plan[i].tensor.Name(), Value: o})
		}
	}
	setObject(md, originalsKey, list)
}

func (e *encoding) describeOriginal(scalars bool) (md layout.Metadata) {
	if e.original.dtype != layout.Invalid {
		md.Set("dtype", e.original.dtype.String())
	}
	if scalar := len(e.original.shape) == 0 && !scalars; md != nil || scalar || len(e.shape) != len(e.original.shape) {
		shape := make([]any, len(e.original.shape))
		for i, n := range e.original.shape {
			shape[i] = json.Number(strconv.FormatUint(n, 10))
		}
		md.Set("shape", shape)
	}
	return md
}

// originals are what the metadata of an APR2 file says of the tensors that setOriginals has
// described. What makes no sense is no original.
func originals(md layout.Metadata) map[string]original {
	all := make(map[string]original)
	for name, v := range object(md, originalsKey).All() {
		o, ok := v.(layout.Metadata)
		shape, isShape := parseShape(o)
		if !ok || !isShape {
			continue
		}
		dtype := layout.Invalid
		if text, ok := o.Get("dtype"); ok {
			s, _ := text.(string)
			if dtype, ok = layout.ParseDType(s); !ok {
				continue
			}
		}
		all[name] = original{dtype, shape}
	}
	return all
}

func parseShape(o layout.Metadata) (shape []uint64, ok bool) {
	v, _ := o.Get("shape")
	switch v := v.(type) {
	case []any:
		return []uint64{}, len(v) == 0
	case []json.Number:
		for _, text := range v {
			n, err := strconv.ParseUint(string(text), 10, 64)
			if err != nil {
				return nil, false
			}
			shape = append(shape, n)
		}
		return shape, true
	}
	return nil, false
}

// restore makes e again what an earlier conversion could not store as it was.
func (p *planner) restore(e *encoding) {
	o, ok := p.originals[e.tensor.Name()]
	if !ok {
		return
	}
	dtype := o.dtype
	if dtype == layout.Invalid {
		dtype = e.dtype
	} else if e.scaled || e.dtype.Kind() != layout.KindUint {
		return
	}
	if size, err := dtype.Size(o.shape); err == nil && size == e.tensor.RawBytes() {
		e.dtype, e.shape, e.original.shape = dtype, o.shape, o.shape
	}
}
