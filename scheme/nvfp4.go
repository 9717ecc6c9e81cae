package scheme

import "github.com/tensormap/tensormap/layout"

// nvfp4 is pairs of E2M1 with scales of 16, and a global scale of the scales. Sources: compressed-tensors 0.20.0 compressors/nvfp4,
// ModelOpt 0.47.0 nvfp4_tensor.py, llama.cpp _repack_nvfp4.
type nvfp4 struct {
	hasGlobalScale  bool // a scale of scales
	dividesByGlobal bool // scales are divided by it, not multiplied
}

// Variants of how NVFP4 is stored.
const (
	nvfp4Packed   = iota // compressed-tensors
	nvfp4ModelOpt        // its code 8 is +0
	nvfp4GGUF            // blocks that have their scales, and a scale for each matrix
	nvfp4Alone           // F4 without a scale of scales
)

// patterns lists how NVFP4's writers name and type the parts of a weight. For ModelOpt the search begins at the global scale, since
// other schemes have the codes and _scale too.
func (nvfp4) patterns() []pattern {
	return []pattern{
		{schemeName: NVFP4, codesEnd: "_packed", codesTypes: u8Codes | f4Codes, scaleEnds: []string{"_scale"}, scaleTypes: e4m3Scales, companions: packedCompanions, variant: nvfp4Packed},
		{schemeName: NVFP4, codesEnd: "", codesTypes: u8Codes | f4Codes, scaleEnds: []string{"_scale_2"}, scaleTypes: floatScales, scaleRole: GlobalScale, companions: append(companionsWithRole(Scale, "_scale"), tensorCompanions...),
			contentRoles: []Role{QuantState}, variant: nvfp4ModelOpt},
		{schemeName: NVFP4, codesEnd: ".weight", nameEnd: ".weight", codesTypes: nvfp4Codes, scaleEnds: []string{".scale", ".weight.scale"}, scaleTypes: floatScales, companions: companionsWithRole(InputScale, ".input_scale"), variant: nvfp4GGUF},
		{schemeName: NVFP4, codesEnd: ".weight", nameEnd: ".weight", codesTypes: f4Codes, scaleEnds: []string{".scale"}, scaleTypes: e4m3Scales, companions: companionsWithRole(GlobalScale, ".scale_2", ".global_scale"), variant: nvfp4Alone},
	}
}

func (s nvfp4) configure(*Config) (scheme, error) { return s, nil }

// setForm sets the form of E2M1 codes in groups of 16. The global scale is one more scale, of the groups' scales; setForm sets
// whether values are multiplied or divided by it. It fails if parts do not fit each other. The variant nvfp4Alone must have no
// global scale, and nvfp4Packed and nvfp4ModelOpt must have one.
func (s nvfp4) setForm(w *weight) (scheme, error) {
	w.Ordered = true
	var code layout.Code
	switch w.pattern.variant {
	case nvfp4GGUF:
		return s, w.setNVFP4Blocks()
	case nvfp4Alone:
		if w.part(GlobalScale) != nil {
			return nil, unsupportedf("F4 with the scale %s and the scale %s of scales", w.quotedName(Scale), w.quotedName(GlobalScale))
		}
		return s, w.setPairs(layout.CodeE2M1, 16, layout.F8_E4M3)
	case nvfp4Packed:
		code, s.dividesByGlobal = layout.CodeE2M1, true
	case nvfp4ModelOpt:
		code = layout.CodeE2M1Plus // code 8 is +0, not −0
	}
	if err := w.setPairs(code, 16, layout.F8_E4M3); err != nil {
		return nil, err
	}
	global := w.part(GlobalScale)
	if global == nil {
		return nil, invalidf("codes without a global scale")
	}
	if !w.hasOnePerMatrix(GlobalScale) || global.DType.Kind() != layout.KindFloat {
		return nil, invalidf("global scale %s of %v %v does not fit shape %v", w.quotedName(GlobalScale), global.DType, w.dims(global), w.shape)
	}
	s.hasGlobalScale = true
	return s, nil
}

// setNVFP4Blocks sets the form of codes in GGUF's NVFP4 blocks, which include scales of groups. The part with the role Scale is an outer
// scale: setNVFP4Blocks fails unless it has one element, or one for each matrix.
func (w *weight) setNVFP4Blocks() error {
	scale := w.part(Scale)
	if err := w.setMatrix(w.dims(w.part(Codes))); err != nil {
		return err
	}
	if !w.hasOnePerMatrix(Scale) {
		return invalidf("scale %s of shape %v does not fit shape %v", w.quotedName(Scale), w.dims(scale), w.shape)
	}
	if w.elementsOf(Scale) == 1 {
		w.asOneMatrix()
	}
	w.Code, w.scaleType = layout.CodeBlocks, scale.DType
	return nil
}

// readScales reads the scales, and divides or multiplies each by the global scale of its matrix, in float32. It fails if reading does.
func (s nvfp4) readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readStoredScales(p, f, dst, from); err != nil || !s.hasGlobalScale {
		return err
	}
	global, err := p.Constants(GlobalScale) // one value, or one for each matrix: see setForm
	if err != nil {
		return err
	}
	scalesPerMatrix := f.scalesPerMatrix()
	for i := range dst.Scales {
		ofMatrix := global[0]
		if len(global) > 1 {
			ofMatrix = global[(from+uint64(i))/scalesPerMatrix]
		}
		if s.dividesByGlobal {
			dst.Scales[i] /= ofMatrix
		} else {
			dst.Scales[i] *= ofMatrix
		}
	}
	return nil
}
