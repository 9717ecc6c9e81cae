package scheme

import "github.com/tensormap/tensormap/layout"

// nvfp4 is pairs of E2M1 with scales of 16, and scales of these scales. Sources: compressed-tensors 0.20.0 compressors/nvfp4,
// ModelOpt 0.47.0 nvfp4_tensor.py, llama.cpp _repack_nvfp4.
type nvfp4 struct {
	global nvfp4Global
}

// nvfp4Global says what the scale of scales does.
type nvfp4Global uint8

const (
	noGlobal nvfp4Global = iota
	divides
	multiplies
)

// The ways to store NVFP4.
const (
	nvfp4Packed   = iota // compressed-tensors
	nvfp4ModelOpt        // its code 8 is +0
	nvfp4GGUF            // blocks that have their scales, and a scale for each matrix
	nvfp4Alone           // F4 without a scale of scales
)

// names lists how the parts of a weight are named and typed by NVFP4's writers.
func (nvfp4) names() []pattern {
	return []pattern{
		{scheme: NVFP4, codes: "_packed", kinds: bytes8 | float4, scales: []string{"_scale"}, by: e4m3, others: ofPacked, way: nvfp4Packed},
		{scheme: NVFP4, codes: "", kinds: bytes8 | float4, scales: []string{"_scale_2"}, by: floats, role: GlobalScale, others: append(companions(Scale, "_scale"), ofTensors...),
			contents: []Role{QuantState}, way: nvfp4ModelOpt},
		{scheme: NVFP4, codes: ".weight", name: ".weight", kinds: blocks, scales: []string{".scale", ".weight.scale"}, by: floats, others: companions(InputScale, ".input_scale"), way: nvfp4GGUF},
		{scheme: NVFP4, codes: ".weight", name: ".weight", kinds: float4, scales: []string{".scale"}, by: e4m3, others: companions(GlobalScale, ".scale_2", ".global_scale"), way: nvfp4Alone},
	}
}

func (s nvfp4) params(*Config) (scheme, error) { return s, nil }

// form finds the form of E2M1 codes in groups of 16, and what to do with the scale of scales. It fails if a way to
// store them that needs this scale lacks it.
func (s nvfp4) form(w *weight) (scheme, error) {
	w.Ordered = true
	switch w.pattern.way {
	case nvfp4GGUF:
		return s, w.nvfp4Blocks()
	case nvfp4Alone:
		if w.part(GlobalScale) != nil {
			return nil, unsupported("F4 with the scale %s and the scale %s of scales", w.name(Scale), w.name(GlobalScale))
		}
		return s, w.pairs(layout.CodeE2M1, 16, layout.F8_E4M3)
	}
	code := layout.CodeE2M1
	if s.global = divides; w.pattern.way == nvfp4ModelOpt {
		code, s.global = layout.CodeE2M1Plus, multiplies
	}
	if err := w.pairs(code, 16, layout.F8_E4M3); err != nil {
		return nil, err
	}
	t := w.part(GlobalScale)
	if t == nil {
		return nil, misfit("codes without a global scale")
	}
	if !w.onePerMatrix(GlobalScale) || t.DType.Kind() != layout.KindFloat {
		return nil, misfit("global scale %s of %v %v does not fit shape %v", w.name(GlobalScale), t.DType, w.dims(t), w.full)
	}
	return s, nil
}

// nvfp4Blocks finds the form of GGUF's blocks, which have their scales. Beside them is one scale for all, or one for
// each matrix; else it fails.
func (w *weight) nvfp4Blocks() error {
	scale := w.part(Scale)
	if err := w.matrix(w.dims(w.part(Codes))); err != nil {
		return err
	}
	if !w.onePerMatrix(Scale) {
		return misfit("scale %s of shape %v does not fit shape %v", w.name(Scale), w.dims(scale), w.full)
	}
	if w.elementsOf(Scale) == 1 {
		w.Rows, _ = elements(w.full[:len(w.full)-1])
	}
	w.Code, w.scaleType = layout.CodeBlocks, scale.DType
	return nil
}

// scales reads the scales, and divides or multiplies each by the scale of scales of its matrix, in float32.
func (s nvfp4) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	if err := direct(p, f, dst, from, Codes); err != nil || s.global == noGlobal {
		return err
	}
	global, err := p.Constants(GlobalScale)
	if err != nil {
		return err
	}
	each := f.perMatrix()
	for i := range dst.Scales {
		by := global[0]
		if len(global) > 1 {
			by = global[(from+uint64(i))/each]
		}
		if s.global == divides {
			dst.Scales[i] /= by
		} else {
			dst.Scales[i] *= by
		}
	}
	return nil
}
