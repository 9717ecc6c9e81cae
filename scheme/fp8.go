package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// fp8 is floats of 8 bits with scales in any grid. Sources: transformers (FP8 blocks, DeepSeek-V4), ModelOpt, ComfyUI, FBGEMM.
var fp8 = scheme{FP8, (*weight).setFP8, []pattern{
	{codesEnd: "", codesTypes: f8, scaleEnds: []string{"_scale_inv", "_scale", "_scales_inv"}, scaleTypes: floats | e8m0 | u8, companions: tensorCompanions},
	{codesEnd: ".weight", codesTypes: f8, scaleEnds: []string{".scale", ".qscale_weight", ".scale_weight", ".weights_scaling_factor"}, scaleTypes: floats | e8m0,
		companions: companionsWithRole(InputScale, ".qscale_act", ".input_scale", ".scale_input", ".activation_scaling_factor")},
}}

// setFP8 sets shape, scales and group index of codes of one byte each. Scales of type U8 are powers of two, each for a group
// of 32 columns. Scales that the configuration says were F8_E8M0 before a conversion may have groups of another size. For
// other scales of type U8 the configuration must name mxfp8, or a format that begins with "mx". setFP8 fails if the
// configuration names neither, or if such scales do not fit groups of 32. It also fails if checkFloats or setByteCodes does.
func (w *weight) setFP8() error {
	if err := w.checkFloats(); err != nil {
		return err
	}
	scale := w.part(Scale)
	isMicroscale := scale.DType == layout.U8 && !w.config.originallyE8M0[string(scale.Name)]
	namesMX := func(p params) bool { return strings.HasPrefix(cmp.Or(p.format, w.params.format), "mx") }
	if isMicroscale && w.config.quantMethod != "mxfp8" && !slices.ContainsFunc(w.layerParams(), namesMX) {
		return unsupportedf("scale %s of bytes, and no configuration (config.json) that says they are powers of two (format, data_type)", w.quotedName(Scale))
	}
	if scale.DType == layout.U8 {
		w.groupSize = cmp.Or(w.groupSize, 32)
	}
	code, codesType := layout.CodeE4M3, layout.F8_E4M3
	if w.part(Codes).DType == layout.F8_E5M2 {
		code, codesType = layout.CodeE5M2, layout.F8_E5M2
	}
	if err := w.setByteCodes(code, codesType); err != nil {
		return err
	}
	// Rows of at most 32 columns may be one group: the shape of the scales does not tell its size.
	if n, _ := elements(w.shape); isMicroscale && n > 0 && w.Cols > 32 && w.GroupCols != 32 {
		return invalidf("scale %s of shape %v does not fit shape %v in groups of 32", w.quotedName(Scale), w.dims(scale), w.shape)
	}
	return nil
}

// checkFloats returns an error if the codes are F8_E5M2 and the configuration does not say so. It also returns one if they are
// F8_E4M3 and the configuration says E5M2. Codes of F8_E5M2 without a configuration are no error. If there is a key fmt, that
// counts, and not data_type or format.
func (w *weight) checkFloats() error {
	stated := strings.ToLower(cmp.Or(w.config.text("fmt"), w.format))
	statesE5M2 := strings.Contains(stated, "e5m2")
	switch codes := w.part(Codes).DType; {
	case codes == layout.F8_E5M2 && w.config.quantMethod != "" && !statesE5M2:
		return invalidf("codes %s of F8_E5M2 in a checkpoint of %s, whose configuration does not say so (fmt, data_type)", w.quotedName(Codes), w.config.quantMethod)
	case codes == layout.F8_E4M3 && statesE5M2:
		return invalidf("codes %s of F8_E4M3, and the configuration says %s (fmt, data_type)", w.quotedName(Codes), layout.Quote(stated))
	}
	return nil
}

// setByteCodes sets the form of codes of one byte each: shape, what a code means, which elements share a scale, zero points and
// group index. d is the type that the codes must have. It takes scales of type U8 for F8_E8M0. It fails if the codes are not of
// type d, or if setGroups, setIntegerZeroPoints or setGroupIndex does.
func (w *weight) setByteCodes(code layout.Code, d layout.DType) error {
	codes, scale := w.part(Codes), w.part(Scale)
	if codes.DType != d {
		return unsupportedf("%v codes", codes.DType)
	}
	w.Code, w.Ordered = code, true
	if scale.DType == layout.U8 {
		w.scaleType = layout.F8_E8M0
	}
	if err := w.setMatrix(w.dims(codes)); err != nil {
		return err
	}
	return cmp.Or(w.setGroups(w.blocksOfBytes()), w.setIntegerZeroPoints(), w.setGroupIndex())
}

// blocksOfBytes returns the rows and columns that a block of codes of one byte each may have. It returns the rows and columns of the
// configuration. If that has none, it returns 128 × 128 for the strategy block, and if name or shape of the scales tell of
// blocks. Otherwise there are no blocks, and it returns nil.
func (w *weight) blocksOfBytes() (blocks [][2]uint64) {
	for _, p := range append(w.layerParams(), w.params) {
		if p.blockSides[0] > 0 && p.blockSides[1] > 0 && !slices.Contains(blocks, p.blockSides) {
			blocks = append(blocks, p.blockSides)
		}
	}
	scale := w.part(Scale)
	isNamedAsBlocks := hasSuffix(scale.Name, "_inv") || hasSuffix(scale.Name, ".scale")
	hasShapeOfModelOpt := len(w.dims(scale)) == 4
	if blocks == nil && (isNamedAsBlocks || hasShapeOfModelOpt || w.strategy == "block") {
		blocks = [][2]uint64{{128, 128}}
	}
	return blocks
}
