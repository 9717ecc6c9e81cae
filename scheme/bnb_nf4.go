package scheme

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// bnb4 is bitsandbytes' codes of 4 bits: a sequence of elements with a scale for each block of them, whatever the rows.
// Source: bitsandbytes 0.50.2 functional.py (QuantState).
type bnb4 struct {
	hasMap      bool    // the values that codes stand for are stored
	nestedBlock uint64  // scales that share a scale, if they are quantized themselves; else 0
	scaleOffset float32 // added to each quantized scale
}

// names lists how the parts of a weight are named and typed by bitsandbytes.
func (bnb4) names() []pattern {
	const nf4, fp4 = ".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"
	maps := []companion{{".quant_map", QuantMap, false}, {".nested_absmax", NestedScale, false}, {".nested_quant_map", NestedMap, false}}
	state, withScale := []Role{QuantState}, append(maps[:3:3], companion{".absmax", Scale, false})
	return []pattern{
		{schemeName: BnbNF4, codesEnd: "", codesTypes: u8Codes, scaleEnds: []string{".absmax"}, companions: append(companions(QuantState, nf4, fp4), maps...), contentRoles: state},
		{schemeName: BnbNF4, codesEnd: nf4, codesTypes: u8Codes, scaleEnds: []string{""}, scaleRole: QuantState, companions: withScale, contentRoles: state, companionFirst: true}, // codes of any type
		{schemeName: BnbFP4, codesEnd: fp4, codesTypes: u8Codes, scaleEnds: []string{""}, scaleRole: QuantState, companions: withScale, contentRoles: state, companionFirst: true},
	}
}

// params reads nothing: bitsandbytes has no keys of its own.
func (s bnb4) params(*Config) (scheme, error) { return s, nil }

// form reads shape and block size from quant_state, a description in JSON beside the codes. It fails if codes or
// scales do not have the sizes that follow.
func (s bnb4) form(w *weight) (scheme, error) {
	state, codes, scale := w.part(QuantState), w.part(Codes), w.part(Scale)
	if state == nil || scale == nil {
		return nil, invalidf("codes of bitsandbytes without %s", map[bool]string{true: "quant_state", false: "absmax"}[state == nil])
	}
	q, err := readQuantState(w.content(QuantState), w.limits)
	if err != nil {
		return nil, err
	}
	n, ok := elements(q.shape)
	if !ok || codes.Raw != ceilDiv(n, 2) {
		return nil, invalidf("%d bytes of codes do not hold the shape %v of quant_state", codes.Raw, q.shape)
	}
	blocks := ceilDiv(n, q.block)
	if w.elementsOf(Scale) != blocks {
		return nil, invalidf("scale %s of shape %v does not have the %d blocks of shape %v", w.quotedName(Scale), w.dims(scale), blocks, q.shape)
	}
	w.Scheme, w.Code = BnbNF4, layout.CodeNF4
	switch {
	case q.kind == "fp4" && hasSuffix(state.Name, "fp4"):
		w.Scheme, w.Code = BnbFP4, layout.CodeFP4
	case q.kind != "nf4" || !hasSuffix(state.Name, "nf4"):
		return nil, invalidf("quant_state %s describes %s", w.quotedName(QuantState), layout.Quote([]byte(q.kind)))
	}
	m := w.part(QuantMap)
	if s.hasMap = m != nil; s.hasMap && (m.DType != layout.F32 || w.elementsOf(QuantMap) != 16) {
		return nil, invalidf("quant_map %s of %v %v", w.quotedName(QuantMap), m.DType, m.Shape)
	}
	w.shape, w.Rows, w.Cols, w.GroupRows, w.GroupCols, w.scaleType, w.Ordered = q.shape, 1, n, 1, q.block, scale.DType, true
	if q.nestedBlock == 0 {
		if !isFloat(scale.DType) {
			return nil, invalidf("scale %s of type %v", w.quotedName(Scale), scale.DType)
		}
		return s, nil
	}
	outer, table := w.part(NestedScale), w.part(NestedMap)
	if scale.DType != layout.U8 || outer == nil || table == nil || outer.DType != layout.F32 || table.DType != layout.F32 ||
		w.elementsOf(NestedScale) != ceilDiv(blocks, q.nestedBlock) || w.elementsOf(NestedMap) != 256 {
		return nil, invalidf("nested scales do not fit: %s, %s, %s", w.quotedName(Scale), w.quotedName(NestedScale), w.quotedName(NestedMap))
	}
	s.nestedBlock, s.scaleOffset = q.nestedBlock, float32(q.offset)
	return s, nil
}

// scales reads the scales. If they are quantized themselves, each is table[code] · outer + s.scaleOffset, where a
// block of scales shares an outer scale. It fails if reading does.
func (s bnb4) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	memory := dst.Offsets
	if err := readScales(p, f, dst, from); err != nil || s.nestedBlock == 0 || len(dst.Scales) == 0 {
		return err
	}
	table, err := p.Constants(NestedMap)
	if err != nil {
		return err
	}
	first := from / s.nestedBlock
	n := (from+uint64(len(dst.Scales))-1)/s.nestedBlock + 1 - first
	if n > uint64(len(memory)) {
		memory = make([]float32, n)
	}
	outer := memory[:n]
	if err := p.Floats(NestedScale, layout.Invalid, outer, first); err != nil {
		return err
	}
	for i, code := range dst.Scales {
		product := table[uint8(code)] * outer[(from+uint64(i))/s.nestedBlock-first]
		dst.Scales[i] = product + s.scaleOffset
	}
	return nil
}

// check returns an error if the stored table of values differs from the one that codes of this type have. A weight
// without such a table is fine.
func (s bnb4) check(p Parts, f *Form) error {
	if !s.hasMap {
		return nil
	}
	b, err := p.Bytes(QuantMap)
	if err != nil {
		return err
	}
	want, _ := dequant.Table(f.Code)
	for i, v := range want {
		if math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) != v {
			return p.Wrap(QuantMap, unsupportedf("codes stand for other values than those of %s", f.Scheme))
		}
	}
	return nil
}

// quantState is bitsandbytes' description of a weight.
type quantState struct {
	kind        string
	block       uint64
	shape       []uint64
	nestedBlock uint64 // 0 if scales are not quantized
	offset      float64
}

// readQuantState reads bitsandbytes' description of a weight in JSON. It fails if sizes of blocks are no powers of
// two, or there is no shape.
func readQuantState(b []byte, lim layout.Limits) (q quantState, err error) {
	lim.Depth = min(lim.Depth, 8)
	md, err := jsontext.Parse(b, layout.Unknown, 0, "quant_state", lim)
	if err != nil {
		return q, err
	}
	q.kind = text(md, "quant_type")
	block, _ := integer(md, "blocksize")
	nested, isNested := integer(md, "nested_blocksize")
	isPower := func(n int64) bool { return 1 <= n && n <= 1<<24 && n&(n-1) == 0 }
	if !isPower(block) || isNested && !isPower(nested) {
		return q, invalidf("quant_state with blocks of %d and %d", block, nested)
	}
	q.block, q.nestedBlock = uint64(block), uint64(nested)
	if v, ok := md.Get("nested_offset"); ok || isNested {
		n, _ := v.(json.Number)
		if q.offset, err = strconv.ParseFloat(string(n), 64); err != nil {
			return q, invalidf("quant_state with the nested_offset %v", v)
		}
	}
	v, _ := md.Get("shape")
	list, ok := v.([]any)
	if ok && uint64(len(list)) <= lim.Rank {
		for _, e := range list {
			n, _ := e.(json.Number)
			dim, err := strconv.ParseUint(string(n), 10, 48)
			if err != nil {
				return q, invalidf("quant_state with a dimension of %v", e)
			}
			q.shape = append(q.shape, dim)
		}
	}
	if len(q.shape) == 0 {
		return q, invalidf("quant_state with the shape %v", v)
	}
	return q, nil
}
