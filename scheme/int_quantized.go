package scheme

import "github.com/tensormap/tensormap/layout"

// intQuantized is integers of 8 bits with scales in any grid. Source: compressed-tensors 0.20.0 compressors/naive_quantized;
// 0.12.2 for the index.
type intQuantized struct {
	groupIndex columnGroups
}

// patterns lists how the parts of a weight are named and typed by compressed-tensors and ComfyUI.
func (intQuantized) patterns() []pattern {
	return []pattern{
		{schemeName: IntQuantized, codesEnd: "", codesTypes: i8Codes, scaleEnds: []string{"_scale"}, scaleTypes: floatScales, companions: tensorCompanions, contentRoles: []Role{QuantState}},
		{schemeName: IntQuantized, codesEnd: ".weight", nameEnd: ".weight", codesTypes: i8Codes, scaleEnds: []string{".scale_weight"}, scaleTypes: floatScales, companions: companionsWithRole(InputScale, ".scale_input")},
	}
}

// configure returns s as it is: int-quantized has no keys of its own.
func (s intQuantized) configure(*Config) (scheme, error) { return s, nil }

// setForm sets shape, groups of scales, zero points and group index of int8s. It fails if parts do not fit each other or the
// configuration.
func (s intQuantized) setForm(w *weight) (scheme, error) {
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

// readScales reads the scales, the zero points if there are some, and the group index. It fails if reading does, or for a
// wrong group index.
func (s intQuantized) readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	if f.HasOffsets {
		if err := readScalesAndOffsets(p, f, dst, from, ZeroPoint); err != nil {
			return err
		}
	} else if err := readStoredScales(p, f, dst, from); err != nil {
		return err
	}
	return s.groupIndex.read(p, f, dst)
}
