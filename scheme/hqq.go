package scheme

import (
	"cmp"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// hqq is Half-Quadratic Quantization: codes in slabs, whose zero points are no integers. Sources: HQQ 0.2.8
// core/quantize.py, core/bitpack.py.
var hqq = scheme{HQQ, (*weight).setHQQ, []pattern{{
	codesEnd: ".W_q", codesTypes: u8 | i32, scaleEnds: []string{".scale"}, scaleTypes: floats, nameTellsScheme: true, required: []Role{ZeroPoint, Shape},
	companions: append([]companion{{end: ".zero", role: ZeroPoint}, {end: ".shape", role: Shape}}, companionsWithRole(Setting,
		".axis", ".nbits", ".group_size", ".packing", ".unpack_view_dtype", ".view_as_float", ".quant_scale", ".quant_zero", ".compute_dtype", ".offload_meta",
		".round_zero", ".channel_wise", ".optimize", ".stores_quant_config", ".encoded_state_dict", ".quant_config")...),
}}}

// hqqPackings are HQQ's names of the ways to pack codes.
var hqqPackings = map[uint64]string{1: "1bit_u8", 2: "2bit_u8", 3: "3bit_32", 4: "4bit_u8", 8: "8bit_u8"}

// setHQQ sets shape, code and groups of the weight. Small tensors beside the codes hold its shape, bits and axis. HQQ reshapes
// the elements to a matrix before it quantizes them. w.Rows and w.Cols become the sides of that matrix, whatever the weight's
// shape. For axis 1 each row of the matrix is a group, for axis 0 each column. It fails if parts do not fit each other, or if
// hqqSettings or checkSlabs does.
func (w *weight) setHQQ() error {
	zero, shapePart := w.part(ZeroPoint), w.part(Shape)
	shape, shapeErr := integers(shapePart.DType, w.content(Shape))
	bits, axis, settingsErr := w.hqqSettings()
	if err := cmp.Or(shapeErr, settingsErr); err != nil {
		return err
	}
	scale, groups := w.part(Scale), w.elementsOf(Scale)
	n, ok := elements(shape)
	isDivided := n == groups || n > 0 && groups > 0 && n%groups == 0 // n == groups also holds if both are 0
	if !ok || len(shape) == 0 || !isDivided {
		return invalidf("scale %s of shape %v does not divide shape %v", w.quotedName(Scale), w.dims(scale), shape)
	}
	perGroup := n / max(groups, 1) // 0 if there are no groups, and then no elements
	if size, isStated := w.setting(".group_size"); isStated && size > 0 && groups > 0 && perGroup != size {
		return invalidf("%d groups of %d do not make shape %v", groups, size, shape)
	}
	const all = 0 // a group has all columns or rows of the matrix
	grid := []uint64{groups, 1}
	w.Rows, w.Cols, w.GroupRows, w.GroupCols = groups, perGroup, 1, all
	if axis == 0 {
		grid = []uint64{1, groups}
		w.Rows, w.Cols, w.GroupRows, w.GroupCols = perGroup, groups, all, 1
	}
	if groups > 0 && !slices.Equal(w.dims(scale), grid) {
		return invalidf("scale %s of shape %v does not lie along axis %d", w.quotedName(Scale), w.dims(scale), axis)
	}
	if err := w.checkShapeOfScale(ZeroPoint); err != nil {
		return err
	}
	if !isFloat(zero.DType) {
		return unsupportedf("zero points %s of type %v", w.quotedName(ZeroPoint), zero.DType)
	}
	w.shape, w.Code, w.Pack = shape, layout.Code(bits), layout.PackSlabs
	w.HasOffsets, w.Ordered = true, true // scales and zero points of some groups can be read alone
	if bits == 8 {                       // a byte has one code: the only slab is all rows, one after the other
		w.Pack = layout.PackRows
	}
	return w.checkSlabs(bits)
}

// hqqSettings returns the bits of a code and the axis of the groups, 0 or 1. Both are in small tensors beside the codes. It
// fails if they are missing or out of range. It also fails if other such tensors tell of another packing, or of quantized
// scales or zero points. It fails for codes that are stored as floats.
func (w *weight) hqqSettings() (bits, axis uint64, err error) {
	bits, hasBits := w.setting(".nbits")
	axis, hasAxis := w.setting(".axis")
	if !hasBits || !hasAxis || axis > 1 || hqqPackings[bits] == "" {
		return 0, 0, invalidf("settings of hqq: %d bits, axis %d", bits, axis)
	}
	for _, p := range w.Parts {
		if p.Role != Setting {
			continue
		}
		t, b := &w.tensors[p.Tensor], w.contents[p.Tensor]
		if hasSuffix(t.Name, ".packing") && t.DType == layout.U8 && string(b) != hqqPackings[bits] {
			return 0, 0, unsupportedf("hqq packed as %s, with %d bits", layout.Quote(b), bits)
		}
		if (hasSuffix(t.Name, ".quant_scale") || hasSuffix(t.Name, ".quant_zero") || hasSuffix(t.Name, ".view_as_float")) && slices.ContainsFunc(b, func(v byte) bool { return v != 0 }) {
			return 0, 0, unsupportedf("hqq with scales, zeros or codes that are stored as something else (%s)", layout.Quote(t.Name))
		}
	}
	return bits, axis, nil
}

// setting returns the integer in a small tensor beside the codes: the part of the role Setting whose name ends with end. ok is
// false if there is no such part, or if it does not have exactly one integer.
func (w *weight) setting(end string) (n uint64, ok bool) {
	for _, p := range w.Parts {
		if t := &w.tensors[p.Tensor]; p.Role == Setting && hasSuffix(t.Name, end) {
			list, err := integers(t.DType, w.contents[p.Tensor])
			if err == nil && len(list) == 1 {
				return list[0], true
			}
		}
	}
	return 0, false
}

// checkSlabs returns an error unless the tensor of codes has the type and the bytes that w.Rows rows of w.Cols codes take. HQQ
// divides the rows into consecutive slabs. A byte has one code of each slab. Codes of 3 bits have a word in place of the byte,
// and only their last slab may be shorter.
func (w *weight) checkSlabs(bits uint64) error {
	codes := w.part(Codes)
	slabs, unitBytes, typeFits, mayBeRagged := 8/bits, uint64(1), codes.DType != layout.I32, false
	if bits == 3 {
		slabs, unitBytes, typeFits, mayBeRagged = 10, 4, codes.DType == layout.I32, true // ten codes in a word
	}
	units, ok := elements([]uint64{ceilDiv(w.Rows, slabs), w.Cols})
	sizeFits := ok && units <= math.MaxInt64/4 && codes.Raw == units*unitBytes // at most 4: the product does not overflow
	if !typeFits || !sizeFits || !mayBeRagged && w.Rows%slabs != 0 {
		return invalidf("codes of %v %v do not hold shape %v in %d bits", codes.DType, w.dims(codes), w.shape, bits)
	}
	return nil
}
