package scheme

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// bitnet is ternary codes. Its layers, in transformers 5.23.0's integrations/bitnet.py: BitLinear divides by the scale, AutoBitLinear
// multiplies. Codes are packed, or floats of AutoBitLinear. A scale that is missing there is what memory happens to hold.
type bitnet struct {
	linearClass    string // the class of layers, linear_class
	isOnline       bool   // weights are quantized when they are used
	dividesByScale bool   // codes are divided by what is stored as the scale
}

// Variants of how BitNet is stored.
const (
	packedTernary   = iota
	unpackedTernary // floats
)

// patterns lists how the parts of a weight are named and typed by transformers.
func (bitnet) patterns() []pattern {
	return []pattern{
		{schemeName: BitNet, codesEnd: "", codesTypes: u8Codes, scaleEnds: []string{"_scale"}, scaleTypes: floatScales, variant: packedTernary},
		{schemeName: BitNet, codesEnd: ".weight", nameEnd: ".weight", scaleEnds: []string{".weight_scale"}, variant: unpackedTernary, floatCodes: &floatCodes{
			isUsed:    func(c *Config) bool { return c.quantMethod == "bitnet" },
			needScale: needsTernaryScale,
		}},
	}
}

// configure reads the class of layers, and whether weights are quantized when they are used.
func (s bitnet) configure(c *Config) (scheme, error) {
	s.linearClass, s.isOnline = text(c.quantization, "linear_class"), text(c.quantization, "quantization_mode") == "online"
	return s, nil
}

// setForm sets the form of ternary codes, packed or as floats. It returns ErrUnsupported for packed codes without a
// configuration of bitnet, and for an unknown class of layers. It returns ErrInvalid if the codes are no matrix, or if the
// scale is not one float. It also returns ErrInvalid if the configuration says that weights are stored in another way.
func (s bitnet) setForm(w *weight) (scheme, error) {
	codes, scale := w.part(Codes), w.part(Scale)
	isAuto, isPacked := s.linearClass == "autobitlinear", w.pattern.variant == packedTernary
	switch {
	case isPacked && w.config.quantMethod != "bitnet": // the configuration alone tells ternary codes from other bytes
		return nil, unsupportedf("%s is not decoded", packedBytes)
	case s.linearClass != "" && s.linearClass != "bitlinear" && !isAuto:
		return nil, unsupportedf("bitnet's layers of class %s are not known", layout.Quote([]byte(s.linearClass)))
	case isAuto && s.isOnline:
		return nil, invalidf("codes of bitnet with a scale, and by the configuration weights are quantized online")
	case len(w.dims(codes)) != 2:
		return nil, invalidf("codes of shape %v are no matrix", w.dims(codes))
	case w.elementsOf(Scale) != 1 || !isFloat(scale.DType):
		return nil, invalidf("scale %s of %v %v, of which bitnet has one float", w.quotedName(Scale), scale.DType, w.dims(scale))
	case !isPacked && !isAuto:
		return nil, invalidf("codes of bitnet of type %v, and by the configuration they are packed (linear_class)", codes.DType)
	}
	w.Ordered, w.scaleType = true, scale.DType
	if !isPacked {
		w.Code = layout.CodeBlocks
		return s, w.setMatrix(w.dims(codes))
	}
	const ternaryBits = 2
	w.Code, w.Pack = layout.Code(ternaryBits), layout.PackLowSlabs
	s.dividesByScale = !isAuto
	return s, w.setMatrix([]uint64{4 * w.dims(codes)[0], w.dims(codes)[1]}) // a row of bytes holds four rows of codes
}

// readScales reads the weight's one scale, and inverts it if codes are divided by it. Packed codes, which are 0, 1 and 2,
// get the offset 1. It fails if reading does.
func (s bitnet) readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readStoredScales(p, f, dst, from); err != nil {
		return err
	}
	if s.dividesByScale {
		for i, scale := range dst.Scales {
			dst.Scales[i] = 1 / scale
		}
	}
	if areFloats := f.Code == layout.CodeBlocks; !areFloats {
		dst.setOneOffset(1)
	}
	return nil
}

// needsTernaryScale reports whether t, a matrix of floats, must have a scale beside it: the configuration says that AutoBitLinear
// stored codes as floats. Weights that are quantized online, embeddings, and names that contain one of modules_to_not_convert need none.
func needsTernaryScale(c *Config, t *layout.Tensor) bool {
	s, _ := bitnet{}.configure(c) // which never fails
	if b := s.(bitnet); c.quantMethod != "bitnet" || b.linearClass != "autobitlinear" || b.isOnline {
		return false
	}
	skipped, _ := c.quantization.Get("modules_to_not_convert")
	list, _ := layout.As[[]string](skipped)
	return !slices.ContainsFunc(append(list, "embed", "wte"), func(name string) bool { return bytes.Contains(t.Name, []byte(name)) })
}
