package scheme

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// bnb4 is bitsandbytes' codes of 4 bits: a sequence of elements with a scale for each block of them, whatever the rows.
// setBnb4 tells NF4 from FP4. Source: bitsandbytes 0.50.2 functional.py (QuantState).
var bnb4 = scheme{BnbNF4, (*weight).setBnb4, []pattern{
	{codesEnd: "", codesTypes: u8, scaleEnds: []string{".absmax"}, companions: append(companionsWithRole(QuantState, nf4State, fp4State), bnbMaps...), required: []Role{QuantState}},
	// For codes of other types than U8 the search begins at quant_state, which is U8. The name of its codes has no end.
	{codesEnd: nf4State, codesTypes: u8, scaleEnds: []string{""}, scaleRole: QuantState, companions: slices.Concat(bnbMaps, companionsWithRole(Scale, ".absmax")), required: []Role{Scale}, swapsCodesAndScale: true},
	{schemeName: BnbFP4, codesEnd: fp4State, codesTypes: u8, scaleEnds: []string{""}, scaleRole: QuantState, companions: slices.Concat(bnbMaps, companionsWithRole(Scale, ".absmax")), required: []Role{Scale}, swapsCodesAndScale: true},
}}

// The ends of the names of quant_state.
const nf4State, fp4State = ".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"

var bnbMaps = []companion{{end: ".quant_map", role: QuantMap}, {end: ".nested_absmax", role: NestedScale}, {end: ".nested_quant_map", role: NestedMap}}

// setBnb4 reads shape and block size from quant_state, a description in JSON beside the codes. It lays the matrix out as one
// row of all elements, since blocks ignore rows. It fails if quant_state cannot be read, or if its name ends with another
// type of codes than its content has. It also fails if a part has another size or type than quant_state says.
func (w *weight) setBnb4() error {
	state, codes, scale := w.part(QuantState), w.part(Codes), w.part(Scale)
	q, err := w.readQuantState()
	if err != nil {
		return err
	}
	n, ok := elements(q.shape)
	if !ok || codes.Raw != ceilDiv(n, 2) {
		return invalidf("%d bytes of codes do not hold the shape %v of quant_state", codes.Raw, q.shape)
	}
	blocks := ceilDiv(n, q.block)
	if w.elementsOf(Scale) != blocks {
		return invalidf("scale %s of shape %v does not have the %d blocks of shape %v", w.quotedName(Scale), w.dims(scale), blocks, q.shape)
	}
	switch {
	case q.kind == "nf4" && hasSuffix(state.Name, "nf4"):
		w.Scheme, w.Code = BnbNF4, layout.CodeNF4
	case q.kind == "fp4" && hasSuffix(state.Name, "fp4"):
		w.Scheme, w.Code = BnbFP4, layout.CodeFP4
	default:
		return invalidf("quant_state %s describes %s", w.quotedName(QuantState), layout.Quote(q.kind))
	}
	if table := w.part(QuantMap); table != nil {
		if table.DType != layout.F32 || w.elementsOf(QuantMap) != 16 {
			return invalidf("quant_map %s of %v %v", w.quotedName(QuantMap), table.DType, table.Shape)
		}
		w.checker = mapChecker{}
	}
	w.shape, w.Rows, w.Cols = q.shape, 1, n
	w.GroupRows, w.GroupCols, w.Ordered = 1, q.block, true
	if q.nestedBlock == 0 { // scales are what is stored
		if !isFloat(scale.DType) {
			return invalidf("scale %s of type %v", w.quotedName(Scale), scale.DType)
		}
		return nil
	}
	outer, table := w.part(NestedScale), w.part(NestedMap)
	outerFits := outer != nil && outer.DType == layout.F32 && w.elementsOf(NestedScale) == ceilDiv(blocks, q.nestedBlock)
	tableFits := table != nil && table.DType == layout.F32 && w.elementsOf(NestedMap) == 256
	if scale.DType != layout.U8 || !outerFits || !tableFits {
		return invalidf("nested scales do not fit: %s, %s, %s", w.quotedName(Scale), w.quotedName(NestedScale), w.quotedName(NestedMap))
	}
	w.reader = nestedScales{q.nestedBlock, float32(q.offset)}
	return nil
}

// nestedScales are scales that are codes of 8 bits themselves. A scale is table[code] · outer + offset. The field block is
// the number of consecutive scales that share one outer scale.
type nestedScales struct {
	block  uint64
	offset float32
}

// readScales fills dst.Scales with scales, beginning with the scale number from. Each scale is stored as a code. Its value is
// table[code] times the outer scale of its block, plus n.offset. It fails if reading does.
func (n nestedScales) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readStored(ctx, p, f, dst, from); err != nil || len(dst.Scales) == 0 {
		return err
	}
	table, err := p.Constants(ctx, NestedMap)
	if err != nil {
		return err
	}
	first, last := from/n.block, (from+uint64(len(dst.Scales))-1)/n.block
	count := int(last + 1 - first)
	outer := slices.Grow(dst.Offsets, count)[:count] // scratch memory: this scheme has no offsets, and dst.Offsets stays empty
	if err := p.Floats(ctx, NestedScale, storedType, outer, first); err != nil {
		return err
	}
	for i, code := range dst.Scales { // codes of type U8, read as floats
		product := table[uint8(code)] * outer[(from+uint64(i))/n.block-first]
		dst.Scales[i] = product + n.offset
	}
	return nil
}

// A mapChecker checks the stored table of values.
type mapChecker struct{}

// check returns an error if the stored table of values differs from the one that codes of this type have.
func (mapChecker) check(ctx context.Context, p Parts, f *Form) error {
	b, err := p.Bytes(ctx, QuantMap)
	if err != nil {
		return err
	}
	want, _ := dequant.Table(f.Code) // NF4 and FP4 have 16 values, and setBnb4 has found as many F32s in b
	for i, v := range want {
		if math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) != v {
			return p.Wrap(QuantMap, unsupportedf("codes stand for other values than the values of %s", f.Scheme))
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

const maxBlock = 1 << 24 // elements that share a scale

// readQuantState parses bitsandbytes' description of a weight in JSON. It fails if parseContent does. It fails unless
// blocksize and, if there is one, nested_blocksize are powers of two from 1 to maxBlock. It fails for a nested_offset that is
// no number, and for a nested_blocksize without a nested_offset. It also fails without a shape, for more than w.limits.Rank
// dimensions, and for a dimension beyond maxDim.
func (w *weight) readQuantState() (q quantState, err error) {
	md, err := w.parseContent(QuantState, "quant_state")
	if err != nil {
		return q, err
	}
	q.kind = text(md, "quant_type")
	block, _ := integer(md, "blocksize")
	nested, isNested := integer(md, "nested_blocksize")
	isPowerOfTwo := func(n int64) bool { return 1 <= n && n <= maxBlock && n&(n-1) == 0 }
	if !isPowerOfTwo(block) || isNested && !isPowerOfTwo(nested) {
		return q, invalidf("quant_state with blocks of %d and %d", block, nested)
	}
	q.block, q.nestedBlock = uint64(block), uint64(nested)
	if v, ok := md.Get("nested_offset"); ok || isNested {
		n, _ := v.(json.Number)
		if q.offset, err = strconv.ParseFloat(string(n), 64); err != nil {
			return q, invalidf("quant_state with the nested_offset %v", v)
		}
	}
	shape, _ := md.Get("shape")
	q.shape, _ = layout.As[[]uint64](shape)
	if len(q.shape) == 0 || uint64(len(q.shape)) > w.limits.Rank || slices.Max(q.shape) > maxDim {
		return q, invalidf("quant_state with the shape %v", shape)
	}
	return q, nil
}
