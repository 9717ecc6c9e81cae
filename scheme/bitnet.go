package scheme

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// BitNet's layers, in transformers 5.23.0's integrations/bitnet.py: BitLinear divides by the scale, AutoBitLinear multiplies.
// Codes are packed, or floats of AutoBitLinear. A scale that is missing there is what memory happens to hold.

// unpackedBitNet is BitNet's weights whose codes are floats. It is asked when no other convention claims the scale.
var unpackedBitNet = convention{scheme: BitNet, codes: ".weight", name: ".weight", scales: []string{unpackedScale}, role: Scale, form: (*shaping).bitnetUnpacked}

// unpackedScale ends the name of a scale beside a weight of floats, which BitNet's layers multiply by it.
const unpackedScale = ".weight_scale"

// unscaled reports whether a tensor that has no scale is one of AutoBitLinear's weights of floats: all matrices but embeddings
// and what the configuration leaves out.
func (f *finder) unscaled(i uint32) (bool, error) {
	t := &f.tensors[i]
	if scaleKinds[t.DType]&floats == 0 || len(t.Shape) != 2 || !hasSuffix(t.Name, string(weightEnd)) || !f.mayEnd([]byte(unpackedScale)) {
		return false, nil
	}
	conf, err := f.configuration()
	if err != nil || conf.method != BitNet || conf.linear != "autobitlinear" || conf.online || f.source.Ignored(t.Name) {
		return false, err
	}
	skipped, _ := conf.said.Get("modules_to_not_convert")
	list, _ := layout.As[[]string](skipped)
	return !slices.ContainsFunc(append(list, "embed", "wte"), func(name string) bool { return bytes.Contains(t.Name, []byte(name)) }), nil
}

// bitnet finds the form of ternary codes, four rows to one of bytes. The configuration alone tells them from other
// bytes, and what the scale does: BitLinear divides by it, AutoBitLinear multiplies.
func (s *shaping) bitnet() error {
	w, codes, scale := s.w, s.part(Codes), s.part(Scale)
	if s.conf.method != "bitnet" {
		return unsupported("%s is not decoded", packedBytes)
	}
	if err := s.ternary(); err != nil {
		return err
	}
	w.Code, w.Pack, w.CodeOffset = 2, layout.PackLowSlabs, 1
	w.Scale, w.ScaleType, w.Reciprocal = Direct, scale.DType, s.conf.linear != "autobitlinear"
	return s.matrix([]uint64{4 * s.dims(codes)[0], s.dims(codes)[1]})
}

// ternary checks what all weights of BitNet have: a matrix, one scale, and a configuration that heeds it.
func (s *shaping) ternary() error {
	codes, scale := s.part(Codes), s.part(Scale)
	switch {
	case s.conf.linear != "" && s.conf.linear != "bitlinear" && s.conf.linear != "autobitlinear":
		return unsupported("bitnet's layers of class %s are not known", layout.Quote([]byte(s.conf.linear)))
	case s.conf.linear == "autobitlinear" && s.conf.online:
		return misfit("codes of bitnet with a scale, and by the configuration weights are quantized online")
	case len(s.dims(codes)) != 2:
		return misfit("codes of shape %v are no matrix", s.dims(codes))
	case s.elementsOf(Scale) != 1 || scaleKinds[scale.DType]&floats == 0:
		return misfit("scale %s of %v %v, of which bitnet has one float", s.name(Scale), scale.DType, s.dims(scale))
	}
	return nil
}

// bitnetUnpacked finds the form of ternary codes that are floats, which AutoBitLinear takes as they are. BitLinear
// has bytes.
func (s *shaping) bitnetUnpacked() error {
	w, codes := s.w, s.part(Codes)
	if err := s.ternary(); err != nil {
		return err
	}
	if s.conf.linear != "autobitlinear" {
		return misfit("codes of bitnet of type %v, and by the configuration they are packed (linear_class)", codes.DType)
	}
	w.Code, w.Scale, w.ScaleType = layout.CodeBlocks, Direct, s.part(Scale).DType
	return s.matrix(s.dims(codes))
}
