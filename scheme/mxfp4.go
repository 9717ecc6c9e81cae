package scheme

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// mxfp4 is pairs of E2M1 with scales of 32 that are powers of two. Sources: OCP Microscaling v1.0, transformers
// integrations/mxfp4.py, compressed-tensors 0.20.0 compressors/mxfp4, DeepSeek-V4.
type mxfp4 struct{}

// The ways to store MXFP4.
const (
	mxfp4Pairs  = iota
	mxfp4Packed // called _packed, as auto-round's MXINT4 is
	mxfp4Blocks // gpt-oss
)

// names lists how the parts of a weight are named and typed by MXFP4's writers.
func (mxfp4) names() []pattern {
	return []pattern{
		{scheme: MXFP4, codes: "_packed", kinds: bytes8 | float4, scales: []string{"_scale"}, by: u8 | e8m0, others: ofPacked, sure: true, way: mxfp4Packed},
		{scheme: MXFP4, codes: ".weight", name: ".weight", kinds: ints8 | bytes8 | float4, scales: []string{".scale"}, by: e8m0},
		{scheme: MXFP4, codes: "", kinds: float4, scales: []string{"_scale"}, by: e8m0},
		{scheme: MXFP4, codes: "_blocks", kinds: bytes8, scales: []string{"_scales"}, by: u8 | e8m0, way: mxfp4Blocks},
	}
}

func (s mxfp4) params(*Config) (scheme, error) { return s, nil }

// form finds the form of pairs of E2M1 by the way they are stored. It fails for bytes called _packed that may be
// integers too, without a configuration that tells.
func (s mxfp4) form(w *weight) (scheme, error) {
	w.Ordered = true
	switch w.pattern.way {
	case mxfp4Blocks:
		shape := w.dims(w.part(Codes))
		if len(shape) < 2 || shape[len(shape)-1] != 16 {
			return nil, misfit("blocks %s of shape %v, not of 16 bytes", w.name(Codes), shape)
		}
		shape = shape[:len(shape)-1]
		return s, w.nibbles(layout.CodeE2M1, widened(shape, 16*shape[len(shape)-1]), 32, layout.F8_E8M0)
	case mxfp4Packed:
		if w.part(Codes).DType != layout.F4 && details[w.conf.method].schemes == nil {
			return nil, unsupported("codes of mxfp4 or mxint4, and no configuration (config.json) that tells (format, data_type)")
		}
	}
	return s, w.pairs(layout.CodeE2M1, 32, layout.F8_E8M0)
}

// pairs finds the form of E2M1 codes, two to a byte, with a scale of scaleType for each group of columns. A tensor
// of F4 counts its codes, other types count bytes.
func (w *weight) pairs(code layout.Code, group uint64, scaleType layout.DType) error {
	codes := w.part(Codes)
	shape := w.dims(codes)
	if n := len(shape) - 1; codes.DType == layout.F4 && n >= 0 {
		if shape[n]%2 != 0 {
			return misfit("codes %s with rows of %d, which fill no bytes", w.name(Codes), shape[n])
		}
		shape[n] /= 2
	}
	return w.nibbles(code, shape, group, scaleType)
}

// nibbles finds the form of E2M1 codes, two to a byte. shape is that of the bytes. It fails unless every group of
// columns has a scale of scaleType, or of bytes.
func (w *weight) nibbles(code layout.Code, shape []uint64, group uint64, scaleType layout.DType) error {
	scale := w.part(Scale)
	if scale == nil {
		return misfit("codes without a scale of groups")
	}
	if len(shape) == 0 {
		return misfit("codes %s are a scalar", w.name(Codes))
	}
	if err := w.matrix(widened(shape, 2*shape[len(shape)-1])); err != nil {
		return err
	}
	if !slices.Equal(w.dims(scale), widened(w.full, ceilDiv(w.Cols, group))) {
		return misfit("scale %s of shape %v does not fit shape %v in groups of %d", w.name(Scale), w.dims(scale), w.full, group)
	}
	if scale.DType != scaleType && scale.DType != layout.U8 {
		return misfit("scale %s of type %v, not %v", w.name(Scale), scale.DType, scaleType)
	}
	w.Code, w.scaleType, w.GroupRows, w.GroupCols = code, scaleType, 1, group
	return nil
}

func (mxfp4) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	return direct(p, f, dst, from, Codes)
}
