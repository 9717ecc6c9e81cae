package scheme

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// mxfp4 is pairs of E2M1 with scales of 32 that are powers of two. Sources: OCP Microscaling v1.0, transformers
// integrations/mxfp4.py, compressed-tensors 0.20.0 compressors/mxfp4, DeepSeek-V4.
var mxfp4 = scheme{MXFP4, (*weight).setMXFP4, []pattern{
	// compressed-tensors and auto-round
	{codesEnd: "_packed", codesTypes: u8 | f4, scaleEnds: []string{"_scale"}, scaleTypes: u8 | e8m0, companions: packedCompanions, nameTellsScheme: true},
	{codesEnd: ".weight", codesTypes: i8 | u8 | f4, scaleEnds: []string{".scale"}, scaleTypes: e8m0}, // DeepSeek-V4
	{codesEnd: "", codesTypes: f4, scaleEnds: []string{"_scale"}, scaleTypes: e8m0},
	{codesEnd: "_blocks", codesTypes: u8, scaleEnds: []string{"_scales"}, scaleTypes: u8 | e8m0, setForm: (*weight).setMXFP4Blocks}, // gpt-oss
}}

// setMXFP4 sets shape, code and groups of a weight of MXFP4. Codes of type U8 whose name ends with "_packed" may also be integers (MXINT4).
// It returns ErrUnsupported for such codes, unless secondKeys has the method: another key of its configuration then names the format, and
// checkWriter checks that key. It fails if setPairs does.
func (w *weight) setMXFP4() error {
	mayBeIntegers := w.pattern.codesEnd == "_packed" && w.part(Codes).DType != layout.F4
	if methodNamesFormat := secondKeys[w.config.quantMethod].schemes != nil; mayBeIntegers && !methodNamesFormat {
		return unsupportedf("codes of mxfp4 or mxint4, and no configuration (config.json) that tells which (format, data_type)")
	}
	return w.setPairs(layout.CodeE2M1, 32, layout.F8_E8M0)
}

// setMXFP4Blocks sets the form of codes of shape [..., blocks, 16]: the blocks of a row, each of 16 bytes with 32 codes that share a scale.
// It fails for another shape.
func (w *weight) setMXFP4Blocks() error {
	shape := w.dims(w.part(Codes))
	n := len(shape) - 1
	if n < 1 || shape[n] != 16 {
		return invalidf("blocks %s of shape %v, not of 16 bytes", w.quotedName(Codes), shape)
	}
	return w.setNibbles(layout.CodeE2M1, withLastDim(shape[:n], 16*shape[n-1]), 32, layout.F8_E8M0)
}

// setPairs sets the form of the part that has the codes, by setNibbles. The shape of a tensor of F4 counts codes, and the shape of
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

// setNibbles sets the form of codes of 4 bits, two to a byte. Each group of groupSize columns has a scale. shape is the shape of
// the bytes, so its last dimension is half of the columns. It fails unless there is a scale for every group, of type scaleType
// or U8, and if setMatrix does.
func (w *weight) setNibbles(code layout.Code, shape []uint64, groupSize uint64, scaleType layout.DType) error {
	scale := w.part(Scale)
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
	w.Code, w.scaleType, w.GroupRows, w.GroupCols, w.Ordered = code, scaleType, 1, groupSize, true
	return nil
}
