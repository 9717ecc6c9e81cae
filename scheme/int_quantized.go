package scheme

import "github.com/tensormap/tensormap/layout"

// intQuantized is integers of 8 bits with scales in any grid. Source: compressed-tensors 0.20.0 compressors/naive_quantized;
// 0.12.2 for the index.
type intQuantized struct {
	groupIndex columnGroups
}

// names lists how the parts of a weight are named and typed by compressed-tensors and ComfyUI.
func (intQuantized) names() []pattern {
	return []pattern{
		{schemeName: IntQuantized, codesEnd: "", codesTypes: i8Codes, scaleEnds: []string{"_scale"}, scaleTypes: floatScales, companions: ofTensors, contentRoles: []Role{QuantState}},
		{schemeName: IntQuantized, codesEnd: ".weight", nameEnd: ".weight", codesTypes: i8Codes, scaleEnds: []string{".scale_weight"}, scaleTypes: floatScales, companions: companions(InputScale, ".scale_input")},
	}
}

// params reads nothing: int-quantized has no keys of its own.
func (s intQuantized) params(*Config) (scheme, error) { return s, nil }

// form sets the groups of scales, the zero points and the group index of int8s. It fails if these do not fit the codes.
func (s intQuantized) form(w *weight) (scheme, error) {
	if err := w.setByteCodes(layout.CodeInt8, layout.I8); err != nil {
		return nil, err
	}
	if err := w.setIntegerZeroPoints(); err != nil {
		return nil, err
	}
	var err error
	s.groupIndex, err = w.findGroupIndex()
	w.Ordered = s.groupIndex.entryBytes == 0
	return s, err
}

// scales reads the scales, the zero points if there are some, and the group index. It fails if reading does, or for a
// wrong group index.
func (s intQuantized) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	if f.HasOffsets {
		if err := readScalesAndOffsets(p, f, dst, from, ZeroPoint); err != nil {
			return err
		}
	} else if err := readScales(p, f, dst, from); err != nil {
		return err
	}
	return s.groupIndex.read(p, f, dst)
}
