package scheme

import "github.com/tensormap/tensormap/layout"

// intQuantized is integers of 8 bits with scales in any grid. Source: compressed-tensors 0.20.0 compressors/naive_quantized;
// 0.12.2 for the index.
type intQuantized struct {
	groupIndex columnGroups
}

// patterns lists how compressed-tensors and ComfyUI name and type the parts of a weight. The QuantState is ComfyUI's .comfy_quant.
func (intQuantized) patterns() []pattern {
	return []pattern{
		{schemeName: IntQuantized, codesEnd: "", codesTypes: i8Codes, scaleEnds: []string{"_scale"}, scaleTypes: floatScales, companions: tensorCompanions, contentRoles: []Role{QuantState}},
		{schemeName: IntQuantized, codesEnd: ".weight", nameEnd: ".weight", codesTypes: i8Codes, scaleEnds: []string{".scale_weight"}, scaleTypes: floatScales, companions: companionsWithRole(InputScale, ".scale_input")},
	}
}

func (s intQuantized) configure(*Config) (scheme, error) { return s, nil }

// setForm sets shape, groups of scales, zero points and group index of int8s. It fails if setByteCodes does.
func (s intQuantized) setForm(w *weight) (_ scheme, err error) {
	s.groupIndex, err = w.setByteCodes(layout.CodeInt8, layout.I8)
	return s, err
}

// readScales reads the scales, the zero points if there are some, and the group index. It fails if reading does, or for a
// wrong group index.
func (s intQuantized) readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readScalesAndOffsets(p, f, dst, from, ZeroPoint); err != nil {
		return err
	}
	return s.groupIndex.read(p, f, dst)
}
