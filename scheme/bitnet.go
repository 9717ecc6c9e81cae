package scheme

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// bitnet is ternary codes. Its layers, in transformers 5.23.0's integrations/bitnet.py: BitLinear divides by the scale,
// AutoBitLinear multiplies. Codes are packed, or floats of AutoBitLinear. A scale that is missing there is what memory
// happens to hold.
type bitnet struct {
	linear   string // the class of layers, linear_class
	isOnline bool   // weights are quantized when they are used
	divides  bool   // codes are divided by what is stored as the scale
}

// The ways to store BitNet.
const (
	packedTernary   = iota
	unpackedTernary // floats
)

// names lists how the parts of a weight are named and typed by transformers.
func (bitnet) names() []pattern {
	return []pattern{
		{scheme: BitNet, codes: "", kinds: bytes8, scales: []string{"_scale"}, by: floats, way: packedTernary},
		{scheme: BitNet, codes: ".weight", name: ".weight", scales: []string{".weight_scale"}, way: unpackedTernary, floats: &floatCodes{
			isUsed:    func(c *Config) bool { return c.method == "bitnet" },
			needScale: needsTernaryScale,
		}},
	}
}

func (s bitnet) params(c *Config) (scheme, error) {
	s.linear, s.isOnline = text(c.said, "linear_class"), text(c.said, "quantization_mode") == "online"
	return s, nil
}

// form finds the form of ternary codes, packed or as floats. It fails unless the configuration says bitnet and its
// class of layers has such codes.
func (s bitnet) form(w *weight) (scheme, error) {
	codes, scale := w.part(Codes), w.part(Scale)
	isAuto, isPacked := s.linear == "autobitlinear", w.pattern.way == packedTernary
	switch {
	case isPacked && w.conf.method != "bitnet": // the configuration alone tells ternary codes from other bytes
		return nil, unsupported("%s is not decoded", packedBytes)
	case s.linear != "" && s.linear != "bitlinear" && !isAuto:
		return nil, unsupported("bitnet's layers of class %s are not known", layout.Quote([]byte(s.linear)))
	case isAuto && s.isOnline:
		return nil, misfit("codes of bitnet with a scale, and by the configuration weights are quantized online")
	case len(w.dims(codes)) != 2:
		return nil, misfit("codes of shape %v are no matrix", w.dims(codes))
	case w.elementsOf(Scale) != 1 || !isFloat(scale.DType):
		return nil, misfit("scale %s of %v %v, of which bitnet has one float", w.name(Scale), scale.DType, w.dims(scale))
	case !isPacked && !isAuto:
		return nil, misfit("codes of bitnet of type %v, and by the configuration they are packed (linear_class)", codes.DType)
	}
	w.Ordered, w.scaleType = true, scale.DType
	if !isPacked {
		w.Code = layout.CodeBlocks
		return s, w.matrix(w.dims(codes))
	}
	w.Code, w.Pack, s.divides = 2, layout.PackLowSlabs, !isAuto
	return s, w.matrix([]uint64{4 * w.dims(codes)[0], w.dims(codes)[1]}) // four rows to one of bytes
}

// scales reads the one scale. The offset of packed codes, which are 0, 1 and 2, is 1.
func (s bitnet) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	memory := dst.Offsets
	if err := direct(p, f, dst, from, Codes); err != nil {
		return err
	}
	if s.divides {
		for i, scale := range dst.Scales {
			dst.Scales[i] = 1 / scale
		}
	}
	if f.Code != layout.CodeBlocks && len(memory) > 0 {
		dst.Offsets = append(memory[:0], 1)
	}
	return nil
}

// needsTernaryScale reports whether a matrix must have a scale beside it: it is a weight of AutoBitLinear, stored as
// floats. Embeddings and layers that the configuration leaves out need none.
func needsTernaryScale(c *Config, t *layout.Tensor) bool {
	if s := ofScheme[bitnet](c); c.method != "bitnet" || s.linear != "autobitlinear" || s.isOnline {
		return false
	}
	skipped, _ := c.said.Get("modules_to_not_convert")
	list, _ := layout.As[[]string](skipped)
	return !slices.ContainsFunc(append(list, "embed", "wte"), func(name string) bool { return bytes.Contains(t.Name, []byte(name)) })
}
