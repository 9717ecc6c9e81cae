package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// fp8 is floats of 8 bits with scales in any grid. Sources: transformers (FP8 blocks, DeepSeek-V4), ModelOpt, ComfyUI, FBGEMM.
type fp8 struct {
	floats     string // which floats of 8 bits the configuration names
	groupIndex columnGroups
}

// patterns lists how the parts of a weight are named and typed by FP8's writers.
func (fp8) patterns() []pattern {
	return []pattern{
		{schemeName: FP8, codesEnd: "", codesTypes: f8Codes, scaleEnds: []string{"_scale_inv", "_scale", "_scales_inv"}, scaleTypes: floatScales | e8m0Scales | u8Scales, companions: tensorCompanions, contentRoles: []Role{QuantState}},
		{schemeName: FP8, codesEnd: ".weight", nameEnd: ".weight", codesTypes: f8Codes, scaleEnds: []string{".scale", ".qscale_weight", ".scale_weight", ".weights_scaling_factor"}, scaleTypes: floatScales | e8m0Scales,
			companions: companionsWithRole(InputScale, ".qscale_act", ".input_scale", ".scale_input", ".activation_scaling_factor")},
	}
}

// configure reads which floats of 8 bits the configuration names.
func (s fp8) configure(c *Config) (scheme, error) {
	s.floats = text(c.quantization, "fmt")
	return s, nil
}

// setForm sets shape, scales, zero points and group index of codes of one byte each. It fails if parts do not fit each
// other or the configuration. Scales of type U8 are powers of two, in groups of 32 unless the configuration has another size. They need
// a configuration that says so, unless they had the type F8_E8M0 before a conversion.
func (s fp8) setForm(w *weight) (scheme, error) {
	if err := s.checkType(w); err != nil {
		return nil, err
	}
	scale := w.part(Scale)
	isMicroscale := scale.DType == layout.U8 && !w.config.originallyE8M0[string(scale.Name)]
	if isMicroscale && !w.isMicroscaled() {
		return nil, unsupportedf("scale %s of bytes, and no configuration (config.json) that says they are powers of two (format, data_type)", w.quotedName(Scale))
	}
	if scale.DType == layout.U8 {
		w.groupSize = cmp.Or(w.groupSize, 32)
	}
	code, codesType := layout.CodeE4M3, layout.F8_E4M3
	if w.part(Codes).DType == layout.F8_E5M2 {
		code, codesType = layout.CodeE5M2, layout.F8_E5M2
	}
	if err := w.setByteCodes(code, codesType); err != nil {
		return nil, err
	}
	if n, _ := elements(w.shape); isMicroscale && n > 0 && w.Cols > 32 && w.GroupCols != 32 {
		return nil, invalidf("scale %s of shape %v does not fit shape %v in groups of 32", w.quotedName(Scale), w.dims(scale), w.shape)
	}
	if err := w.setIntegerZeroPoints(); err != nil {
		return nil, err
	}
	var err error
	s.groupIndex, err = w.findGroupIndex()
	w.Ordered = s.groupIndex.entryBytes == 0
	return s, err
}

// checkType returns an error if the configuration and the type of the codes disagree about E5M2. A configuration that
// names no type means E4M3. Without a configuration codes of E5M2 are no error.
func (s fp8) checkType(w *weight) error {
	stated := strings.ToLower(cmp.Or(s.floats, w.format))
	statesE5M2 := strings.Contains(stated, "e5m2")
	switch codes := w.part(Codes).DType; {
	case codes == layout.F8_E5M2 && w.config.quantMethod != "" && !statesE5M2:
		return invalidf("codes %s of F8_E5M2 in a checkpoint of %s, whose configuration does not say so (fmt, data_type)", w.quotedName(Codes), w.config.quantMethod)
	case codes == layout.F8_E4M3 && statesE5M2:
		return invalidf("codes %s of F8_E4M3, and the configuration says %s (fmt, data_type)", w.quotedName(Codes), layout.Quote([]byte(stated)))
	}
	return nil
}

// isMicroscaled reports whether the configuration says that 32 codes of FP8 share a scale that is a power of two.
func (w *weight) isMicroscaled() bool {
	return w.config.quantMethod == "mxfp8" || slices.ContainsFunc(w.layerParams(), func(p params) bool { return strings.HasPrefix(cmp.Or(p.format, w.params.format), "mx") })
}

// setByteCodes sets the form of codes of one byte each: shape, what a code means, and which elements share a scale. It reads scales of
// type U8 as F8_E8M0. It fails if the codes are not of type d, or if the scales fit nothing.
func (w *weight) setByteCodes(code layout.Code, d layout.DType) error {
	codes, scale := w.part(Codes), w.part(Scale)
	if codes.DType != d {
		return unsupportedf("%v codes", codes.DType)
	}
	w.Code, w.scaleType = code, scale.DType
	if scale.DType == layout.U8 {
		w.scaleType = layout.F8_E8M0
	}
	if err := w.setMatrix(w.dims(codes)); err != nil {
		return err
	}
	return w.setGroups(w.blocksOfBytes())
}

// blocksOfBytes returns the rows and columns that a block of codes of one byte each may have: those of the configuration, or else
// 128 × 128 if name or shape of the scales are those of writers that use such blocks. It returns nil if codes do not lie in blocks.
func (w *weight) blocksOfBytes() (blocks [][2]uint64) {
	for _, p := range append(w.layerParams(), w.params) {
		if p.blockSides[0] > 0 && p.blockSides[1] > 0 && !slices.Contains(blocks, p.blockSides) {
			blocks = append(blocks, p.blockSides)
		}
	}
	scale := w.part(Scale)
	isNamedAsBlocks := hasSuffix(scale.Name, "_inv") || hasSuffix(scale.Name, ".scale")
	if blocks == nil && (isNamedAsBlocks || w.strategy == "block" || len(w.dims(scale)) == 4) {
		blocks = [][2]uint64{{128, 128}}
	}
	return blocks
}

// readScales reads the scales and the group index. It fails if reading does, or for a wrong group index.
func (s fp8) readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readStoredScales(p, f, dst, from); err != nil {
		return err
	}
	return s.groupIndex.read(p, f, dst)
}
