package scheme

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// mxfp4 is pairs of E2M1 with scales of 32 that are powers of two. Sources: OCP Microscaling v1.0, transformers
// integrations/mxfp4.py, compressed-tensors 0.20.0 compressors/mxfp4, DeepSeek-V4.
type mxfp4 struct{}

// Variants of how MXFP4 is stored.
const (
	mxfp4Pairs  = iota
	mxfp4Packed // called _packed, as auto-round's MXINT4 is
	mxfp4Blocks // gpt-oss
)

// patterns lists how MXFP4's writers name and type the parts of a weight: compressed-tensors and auto-round (_packed),
// DeepSeek-V4 (.scale), whoever stores F4, and gpt-oss (_blocks).
func (mxfp4) patterns() []pattern {
	return []pattern{
		{schemeName: MXFP4, codesEnd: "_packed", codesTypes: u8Codes | f4Codes, scaleEnds: []string{"_scale"}, scaleTypes: u8Scales | e8m0Scales, companions: packedCompanions, nameDecides: true, variant: mxfp4Packed},
		{schemeName: MXFP4, codesEnd: ".weight", nameEnd: ".weight", codesTypes: i8Codes | u8Codes | f4Codes, scaleEnds: []string{".scale"}, scaleTypes: e8m0Scales},
		{schemeName: MXFP4, codesEnd: "", codesTypes: f4Codes, scaleEnds: []string{"_scale"}, scaleTypes: e8m0Scales},
		{schemeName: MXFP4, codesEnd: "_blocks", codesTypes: u8Codes, scaleEnds: []string{"_scales"}, scaleTypes: u8Scales | e8m0Scales, variant: mxfp4Blocks},
	}
}

func (s mxfp4) configure(*Config) (scheme, error) { return s, nil }

// setForm sets shape, code and groups of a weight of MXFP4. It fails if its parts do not fit each other. Bytes called _packed
// may also be integers (MXINT4). It returns ErrUnsupported for them, unless the method has a second key that names the format.
// checkWriter then checks that key.
func (s mxfp4) setForm(w *weight) (scheme, error) {
	w.Ordered = true
	switch codes := w.part(Codes); w.pattern.variant {
	case mxfp4Blocks:
		shape := w.dims(codes) // [..., blocks, 16 bytes]
		n := len(shape) - 1
		if n < 1 || shape[n] != 16 {
			return nil, invalidf("blocks %s of shape %v, not of 16 bytes", w.quotedName(Codes), shape)
		}
		return s, w.setNibbles(layout.CodeE2M1, withLastDim(shape[:n], 16*shape[n-1]), 32, layout.F8_E8M0)
	case mxfp4Packed:
		namesFormats := secondKeys[w.config.quantMethod].schemes != nil
		if codes.DType != layout.F4 && !namesFormats {
			return nil, unsupportedf("codes of mxfp4 or mxint4, and no configuration (config.json) that tells (format, data_type)")
		}
	}
	return s, w.setPairs(layout.CodeE2M1, 32, layout.F8_E8M0)
}

// setPairs sets the form of the part that has the codes, by setNibbles. The shape of a tensor of F4 counts codes, and that of
// other types counts bytes. It fails if rows of F4 do not fill bytes, or if setNibbles does.
func (w *weight) setPairs(code layout.Code, groupSize uint64, scaleType layout.DType) error {
	codes := w.part(Codes)
	shape := w.dims(codes)
	if n := len(shape) - 1; codes.DType == layout.F4 && n >= 0 {
		if shape[n]%2 != 0 {
			return invalidf("codes %s with rows of %d, which fill no bytes", w.quotedName(Codes), shape[n])
		}
		shape[n] /= 2
	}
	return w.setNibbles(code, shape, groupSize, scaleType)
}

// setNibbles sets the form of codes of 4 bits, two to a byte. Each group of groupSize columns has a scale. shape is that of
// the bytes, so its last dimension is half of the columns. It fails unless there is a scale for every group, of type scaleType
// or U8, and if setMatrix does.
func (w *weight) setNibbles(code layout.Code, shape []uint64, groupSize uint64, scaleType layout.DType) error {
	scale := w.part(Scale)
	if scale == nil { // one pattern of NVFP4 matches codes without a scale
		return invalidf("codes without a scale of groups")
	}
	if err := w.setMatrix(shape); err != nil {
		return err
	}
	w.Cols *= 2
	w.shape = withLastDim(shape, w.Cols)
	if !slices.Equal(w.dims(scale), withLastDim(w.shape, ceilDiv(w.Cols, groupSize))) {
		return invalidf("scale %s of shape %v does not fit shape %v in groups of %d", w.quotedName(Scale), w.dims(scale), w.shape, groupSize)
	}
	if scale.DType != scaleType && scale.DType != layout.U8 {
		return invalidf("scale %s of type %v, not %v", w.quotedName(Scale), scale.DType, scaleType)
	}
	w.Code, w.scaleType, w.GroupRows, w.GroupCols = code, scaleType, 1, groupSize
	return nil
}

// readScales reads the scales as they are stored. It fails if reading does.
func (mxfp4) readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	return readStoredScales(p, f, dst, from)
}
