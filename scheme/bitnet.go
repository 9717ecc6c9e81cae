package scheme

import (
	"bytes"
	"context"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// bitnet is ternary codes. Its layers are in transformers 5.23.0's integrations/bitnet.py. BitLinear divides by the scale,
// AutoBitLinear multiplies. Codes are packed, or floats of AutoBitLinear. If the scale of such floats is missing,
// transformers takes what memory happens to hold.
var bitnet = scheme{BitNet, (*weight).setBitNet, []pattern{
	{codesEnd: "", codesTypes: u8, scaleEnds: []string{"_scale"}, scaleTypes: floats},
	{codesEnd: ".weight", codesTypes: floats, scaleEnds: []string{".weight_scale"}, acceptsShapes: isBitNet, lacksScale: lacksTernaryScale},
}}

// isBitNet reports whether the configuration's method is bitnet: floats beside a scale are codes then, whatever their shapes.
func isBitNet(c *Config, _, _ *layout.Tensor) bool { return c.quantMethod == "bitnet" }

// setBitNet sets the form of ternary codes, packed or as floats. It returns ErrUnsupported for packed codes without a
// configuration of bitnet, and for an unknown class of layers. It returns ErrInvalid if the codes are no matrix, or if the
// scale is not one float. It also returns ErrInvalid if the configuration says that weights are stored in another way.
func (w *weight) setBitNet() error {
	codes, scale, class := w.part(Codes), w.part(Scale), w.config.text("linear_class")
	isAuto, isPacked := class == "autobitlinear", w.pattern.lacksScale == nil
	switch {
	case isPacked && w.config.quantMethod != "bitnet": // the configuration alone tells ternary codes from other bytes
		return unsupportedf("%s is not decoded", packedBytes)
	case class != "" && class != "bitlinear" && !isAuto:
		return unsupportedf("bitnet's layers of class %s are not known", layout.Quote(class))
	case isAuto && w.config.text("quantization_mode") == "online":
		return invalidf("codes of bitnet with a scale, and by the configuration weights are quantized online")
	case len(w.dims(codes)) != 2:
		return invalidf("codes of shape %v are no matrix", w.dims(codes))
	case w.elementsOf(Scale) != 1 || !isFloat(scale.DType):
		return invalidf("scale %s of %v %v, of which bitnet has one float", w.quotedName(Scale), scale.DType, w.dims(scale))
	case !isPacked && !isAuto:
		return invalidf("codes of bitnet of type %v, and by the configuration they are packed (linear_class)", codes.DType)
	}
	w.Ordered = true
	if !isPacked {
		w.Code = layout.CodeBlocks
		return w.setMatrix(w.dims(codes))
	}
	const ternaryBits = 2
	w.Code, w.Pack = layout.Code(ternaryBits), layout.PackLowSlabs
	w.reader = packedTernary{isAuto}
	return w.setMatrix([]uint64{4 * w.dims(codes)[0], w.dims(codes)[1]}) // a row of bytes holds four rows of codes
}

// packedTernary has the scales of packed codes.
type packedTernary struct {
	multiplies bool // codes are multiplied by what is stored as the scale, not divided
}

// readScales reads the weight's one scale. Unless t.multiplies is set, it replaces the scale by its reciprocal. Codes are 0,
// 1 and 2, which stand for −1, 0 and 1, so the offset is 1. It fails if reading does.
func (t packedTernary) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readStored(ctx, p, f, dst, from); err != nil {
		return err
	}
	if !t.multiplies {
		for i, scale := range dst.Scales {
			dst.Scales[i] = 1 / scale
		}
	}
	dst.setOneOffset(1)
	return nil
}

// lacksTernaryScale reports whether t, a matrix of floats, must have a scale beside it: the configuration says that AutoBitLinear
// stored codes as floats. Weights that are quantized online, embeddings, and names that contain one of modules_to_not_convert need none.
func lacksTernaryScale(c *Config, t *layout.Tensor) bool {
	if c.quantMethod != "bitnet" || c.text("linear_class") != "autobitlinear" || c.text("quantization_mode") == "online" {
		return false
	}
	skipped, _ := c.quantization.Get("modules_to_not_convert")
	list, _ := layout.As[[]string](skipped)
	return !slices.ContainsFunc(append(list, "embed", "wte"), func(name string) bool { return bytes.Contains(t.Name, []byte(name)) })
}
