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
		{scheme: IntQuantized, codes: "", kinds: ints8, scales: []string{"_scale"}, by: floats, others: ofTensors, contents: []Role{QuantState}},
		{scheme: IntQuantized, codes: ".weight", name: ".weight", kinds: ints8, scales: []string{".scale_weight"}, by: floats, others: companions(InputScale, ".scale_input")},
	}
}

func (s intQuantized) params(*Config) (scheme, error) { return s, nil }

// form finds the grid of scales, the zero points and the group index of int8s. It fails if these do not fit the
// codes.
func (s intQuantized) form(w *weight) (scheme, error) {
	if err := w.byteCodes(layout.CodeInt8, layout.I8); err != nil {
		return nil, err
	}
	if err := w.zeros(); err != nil {
		return nil, err
	}
	var err error
	s.groupIndex, err = w.index(true) // it may be unset
	w.Ordered = s.groupIndex.size == 0
	return s, err
}

// scales reads the scales, the zero points if there are some, and the group index.
func (s intQuantized) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	zeros := Codes // none
	if f.HasOffsets {
		zeros = ZeroPoint
	}
	if err := direct(p, f, dst, from, zeros); err != nil {
		return err
	}
	return s.groupIndex.read(p, f, dst)
}
