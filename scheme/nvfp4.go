package scheme

import (
	"context"

	"github.com/tensormap/tensormap/layout"
)

// nvfp4 is pairs of E2M1 with scales of 16, and a global scale of the scales. Sources: compressed-tensors 0.20.0 compressors/nvfp4,
// ModelOpt 0.47.0 nvfp4_tensor.py, llama.cpp _repack_nvfp4.
var nvfp4 = scheme{NVFP4, (*weight).setNVFP4, []pattern{
	{codesEnd: "_packed", codesTypes: u8 | f4, scaleEnds: []string{"_scale"}, scaleTypes: e4m3, companions: packedCompanions, required: []Role{GlobalScale}}, // compressed-tensors
	// ModelOpt: the search begins at the global scale, since other schemes have the codes and _scale too.
	{codesEnd: "", codesTypes: u8 | f4, scaleEnds: []string{"_scale_2"}, scaleTypes: floats, scaleRole: GlobalScale, companions: append(companionsWithRole(Scale, "_scale"), tensorCompanions...), required: []Role{Scale}},
	{codesEnd: ".weight", codesTypes: nvfp4Blocks, scaleEnds: []string{".scale", ".weight.scale"}, scaleTypes: floats, companions: companionsWithRole(InputScale, ".input_scale"), setForm: (*weight).setNVFP4Blocks}, // GGUF
	{codesEnd: ".weight", codesTypes: f4, scaleEnds: []string{".scale"}, scaleTypes: e4m3, companions: companionsWithRole(GlobalScale, ".scale_2", ".global_scale")},                                                  // F4
}}

// setNVFP4 sets the form of codes in groups of 16. Two writers have a global scale besides: ModelOpt multiplies the scales by it, and
// compressed-tensors divides them by it. Code 8 of ModelOpt is +0, not −0. Plain F4 has no global scale. setNVFP4 fails if plain F4 has a
// global scale, if a writer's global scale does not fit the shape, or if setPairs fails.
func (w *weight) setNVFP4() error {
	global := w.part(GlobalScale)
	isModelOpt := w.pattern.scaleRole == GlobalScale // the one pattern that begins at the global scale
	isPlainF4 := w.pattern.required == nil           // the patterns of the two writers require a part
	if isPlainF4 && global != nil {
		return unsupportedf("F4 with the scale %s and the scale %s of scales", w.quotedName(Scale), w.quotedName(GlobalScale))
	}
	code := layout.CodeE2M1
	if isModelOpt {
		code = layout.CodeE2M1Plus
	}
	if err := w.setPairs(code, 16, layout.F8_E4M3); err != nil || isPlainF4 {
		return err
	}
	if !w.hasOnePerMatrix(GlobalScale) || global.DType.Kind() != layout.KindFloat {
		return invalidf("global scale %s of %v %v does not fit shape %v", w.quotedName(GlobalScale), global.DType, w.dims(global), w.shape)
	}
	w.reader = globalScale{divides: !isModelOpt}
	return nil
}

// globalScale reads scales that a global scale multiplies or divides.
type globalScale struct {
	divides bool // scales are divided by the global scale, not multiplied
}

// readScales reads the scales, and divides or multiplies each by the global scale of its matrix, in float32. It fails if reading does.
func (g globalScale) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readStored(ctx, p, f, dst, from); err != nil {
		return err
	}
	global, err := p.Constants(ctx, GlobalScale) // one value, or one for each matrix: see setNVFP4
	if err != nil {
		return err
	}
	scalesPerMatrix := f.scalesPerMatrix()
	for i := range dst.Scales {
		ofMatrix := global[0]
		if len(global) > 1 {
			ofMatrix = global[(from+uint64(i))/scalesPerMatrix]
		}
		if g.divides {
			dst.Scales[i] /= ofMatrix
		} else {
			dst.Scales[i] *= ofMatrix
		}
	}
	return nil
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
	w.Code, w.Ordered = layout.CodeBlocks, true
	return nil
}
