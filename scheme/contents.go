package scheme

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// integers reads the elements of a small tensor of integers.
func integers(d layout.DType, b []byte) ([]uint64, error) {
	size := d.BlockBytes()
	if k := d.Kind(); k != layout.KindInt && k != layout.KindUint && k != layout.KindBool || size == 0 || len(b)%size != 0 {
		return nil, misfit("%d bytes of %v are no integers", len(b), d)
	}
	list := make([]uint64, 0, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		var word [8]byte
		copy(word[:], b[:size])
		v := binary.LittleEndian.Uint64(word[:])
		if d.Kind() == layout.KindInt && size < 8 && v>>(8*size-1) != 0 || d.Kind() == layout.KindInt && int64(v) < 0 {
			return nil, misfit("a negative size")
		}
		list = append(list, v)
	}
	return list, nil
}

// quantState is bitsandbytes' description of a weight.
type quantState struct {
	kind        string
	block       uint64
	shape       []uint64
	nested      bool
	nestedBlock uint64
	offset      float64
}

// readQuantState reads the description in JSON.
func readQuantState(b []byte, lim layout.Limits) (q quantState, err error) {
	lim.Depth = min(lim.Depth, 8)
	md, err := jsontext.Parse(b, layout.Unknown, 0, "quant_state", lim)
	if err != nil {
		return q, err
	}
	q.kind = text(md, "quant_type")
	block, _ := integer(md, "blocksize")
	nested, isNested := integer(md, "nested_blocksize")
	power := func(n int64) bool { return 1 <= n && n <= 1<<24 && n&(n-1) == 0 }
	if !power(block) || isNested && !power(nested) {
		return q, misfit("quant_state with blocks of %d and %d", block, nested)
	}
	q.block, q.nested, q.nestedBlock = uint64(block), isNested, uint64(nested)
	if v, ok := md.Get("nested_offset"); ok || isNested {
		n, _ := v.(json.Number)
		if q.offset, err = strconv.ParseFloat(string(n), 64); err != nil {
			return q, misfit("quant_state with the nested_offset %v", v)
		}
	}
	v, _ := md.Get("shape")
	list, ok := v.([]any)
	if ok && uint64(len(list)) <= lim.Rank {
		for _, e := range list {
			n, _ := e.(json.Number)
			dim, err := strconv.ParseUint(string(n), 10, 48)
			if err != nil {
				return q, misfit("quant_state with a dimension of %v", e)
			}
			q.shape = append(q.shape, dim)
		}
	}
	if len(q.shape) == 0 {
		return q, misfit("quant_state with the shape %v", v)
	}
	return q, nil
}

// bnb4 finds the form of bitsandbytes' 4-bit codes, by their quant_state.
func (s *shaping) bnb4() error {
	w := s.w
	state, codes, scale := s.part(QuantState), s.part(Codes), s.part(Scale)
	if state == nil || scale == nil {
		return misfit("codes of bitsandbytes without %s", map[bool]string{true: "quant_state", false: "absmax"}[state == nil])
	}
	q, err := readQuantState(s.content(QuantState), s.limits)
	if err != nil {
		return err
	}
	n, ok := elements(q.shape)
	if !ok || codes.Raw != ceilDiv(n, 2) {
		return misfit("%d bytes of codes do not hold the shape %v of quant_state", codes.Raw, q.shape)
	}
	blocks := ceilDiv(n, q.block)
	if s.elementsOf(Scale) != blocks {
		return misfit("scale %s of shape %v does not have the %d blocks of shape %v", s.name(Scale), s.dims(scale), blocks, q.shape)
	}
	w.Scheme, w.Code = BnbNF4, layout.CodeNF4
	switch {
	case q.kind == "fp4" && hasSuffix(state.Name, "fp4"):
		w.Scheme, w.Code = BnbFP4, layout.CodeFP4
	case q.kind != "nf4" || !hasSuffix(state.Name, "nf4"):
		return misfit("quant_state %s describes %s", s.name(QuantState), layout.Quote([]byte(q.kind)))
	}
	if m := s.part(QuantMap); m != nil && (m.DType != layout.F32 || s.elementsOf(QuantMap) != 16) {
		return misfit("quant_map %s of %v %v", s.name(QuantMap), m.DType, m.Shape)
	}
	s.full, w.Rows, w.Cols, w.GroupRows, w.GroupCols = q.shape, 1, n, 1, q.block
	w.Scale, w.ScaleType = Direct, scale.DType
	if !q.nested {
		if scaleKinds[scale.DType]&floats == 0 {
			return misfit("scale %s of type %v", s.name(Scale), scale.DType)
		}
		return nil
	}
	outer, table := s.part(NestedScale), s.part(NestedMap)
	if scale.DType != layout.U8 || outer == nil || table == nil || outer.DType != layout.F32 || table.DType != layout.F32 ||
		s.elementsOf(NestedScale) != ceilDiv(blocks, q.nestedBlock) || s.elementsOf(NestedMap) != 256 {
		return misfit("nested scales do not fit: %s, %s, %s", s.name(Scale), s.name(NestedScale), s.name(NestedMap))
	}
	w.Scale, w.NestedBlock, w.NestedOffset = Nested, q.nestedBlock, float32(q.offset)
	return nil
}

func (s *shaping) setting(end string) (uint64, bool) {
	for _, p := range s.w.Parts {
		if t := &s.tensors[p.Tensor]; p.Role == Setting && hasSuffix(t.Name, end) {
			list, err := integers(t.DType, s.contentOf(p.Tensor))
			if err == nil && len(list) == 1 {
				return list[0], true
			}
		}
	}
	return 0, false
}

// hqqPackings are HQQ's names of the ways to pack codes.
var hqqPackings = map[uint64]string{1: "1bit_u8", 2: "2bit_u8", 3: "3bit_32", 4: "4bit_u8", 8: "8bit_u8"}

func (s *shaping) hqq() error {
	w, codes, scale, zero := s.w, s.part(Codes), s.part(Scale), s.part(ZeroPoint)
	shapeOf := s.part(Shape)
	if zero == nil || shapeOf == nil {
		return misfit("codes of hqq without %s", map[bool]string{true: "zero", false: "shape"}[zero == nil])
	}
	shape, err := integers(shapeOf.DType, s.content(Shape))
	if err != nil {
		return err
	}
	b, told := s.setting(".nbits")
	axis, axisTold := s.setting(".axis")
	if !told || !axisTold || axis > 1 || hqqPackings[b] == "" {
		return misfit("settings of hqq: %d bits, axis %d", b, axis)
	}
	for _, p := range w.Parts {
		t := &s.tensors[p.Tensor]
		if p.Role == Setting && hasSuffix(t.Name, ".packing") && t.DType == layout.U8 && string(s.contentOf(p.Tensor)) != hqqPackings[b] {
			return unsupported("hqq packed as %s, with %d bits", layout.Quote(s.contentOf(p.Tensor)), b)
		}
		if p.Role == Setting && (hasSuffix(t.Name, ".quant_scale") || hasSuffix(t.Name, ".quant_zero") || hasSuffix(t.Name, ".view_as_float")) &&
			slices.ContainsFunc(s.contentOf(p.Tensor), func(b byte) bool { return b != 0 }) {
			return unsupported("hqq with scales, zeros or codes that are stored as something else (%s)", layout.Quote(t.Name))
		}
	}
	n, ok := elements(shape)
	groups := s.elementsOf(Scale)
	if !ok || len(shape) == 0 || n == 0 && groups != 0 || groups > 0 && n%groups != 0 || n > 0 && groups == 0 {
		return misfit("scale %s of shape %v does not divide shape %v", s.name(Scale), s.dims(scale), shape)
	}
	if g, told := s.setting(".group_size"); told && g > 0 && groups > 0 && n/groups != g {
		return misfit("%d groups of %d do not make shape %v", groups, g, shape)
	}
	grid := []uint64{groups, 1}
	if axis == 0 {
		slices.Reverse(grid)
	}
	if groups > 0 && !slices.Equal(s.dims(scale), grid) {
		return misfit("scale %s of shape %v does not lie along axis %d", s.name(Scale), s.dims(scale), axis)
	}
	if err := s.sameGrid(ZeroPoint); err != nil {
		return err
	}
	if scaleKinds[zero.DType]&floats == 0 {
		return unsupported("zero points %s of type %v", s.name(ZeroPoint), zero.DType)
	}
	s.full, w.Code, w.Pack, w.Scale, w.Zero, w.ScaleType = shape, layout.Code(b), layout.PackSlabs, Direct, Direct, scale.DType
	if w.Rows, w.Cols, w.GroupRows, w.GroupCols = groups, n/max(groups, 1), 1, 0; axis == 0 {
		w.Rows, w.Cols, w.GroupRows, w.GroupCols = n/max(groups, 1), groups, 0, 1
	}
	slabs, unit := 8/b, uint64(1)
	if b == 3 {
		slabs, unit = 10, 4
	}
	slab, fits := elements([]uint64{ceilDiv(w.Rows, slabs), w.Cols})
	if b == 8 {
		w.Pack = layout.PackRows
	}
	if !fits || slab > math.MaxInt64/4 || codes.Raw != slab*unit || b != 3 && w.Rows%slabs != 0 || (codes.DType == layout.I32) != (b == 3) {
		return misfit("codes of %v %v do not hold shape %v in %d bits", codes.DType, s.dims(codes), shape, b)
	}
	return nil
}
