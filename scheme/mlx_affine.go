package scheme

import (
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// mlxAffine is MLX: integers with a scale and a bias for each group, and its modes without biases. Sources: MLX 0.32.4
// mlx/backend/cpu/quantized.cpp, mlx-lm utils.py; Ollama x/create/client/quantize.go.
var mlxAffine = scheme{MLXAffine, (*weight).setMLX, []pattern{
	{codesEnd: ".weight", codesTypes: u32, scaleEnds: []string{".scales"}, scaleTypes: floats | u8 | e8m0 | e4m3, companions: companionsWithRole(Bias, ".biases")},
	{codesEnd: ".weight", codesTypes: u32, scaleEnds: []string{".weight.scale"}, scaleTypes: floats | u8 | e8m0 | e4m3, // Ollama
		companions: []companion{{end: ".weight.bias", role: Bias}, {end: ".weight.global_scale", role: GlobalScale}}},
}}

// mlxModes are MLX's modes without biases.
var mlxModes = map[string]struct {
	scheme string
	code   layout.Code
	group  uint64
	scale  layout.DType
}{
	"mxfp4": {MXFP4, layout.CodeE2M1, 32, layout.F8_E8M0},
	"mxfp8": {FP8, layout.CodeE4M3, 32, layout.F8_E8M0},
	"nvfp4": {NVFP4, layout.CodeE2M1, 16, layout.F8_E4M3},
}

// setMLX sets code, groups and shape of codes in words, by the configuration's mode, bits and group size. An override may say
// that the layer is not quantized, though its parts show that it is. Then the settings for all layers hold. It fails without a
// configuration, and for codes with a global scale. It fails if the words and the groups of a row do not make the same number
// of columns. It also fails if setMLXIntegers or setMLXMode does.
func (w *weight) setMLX() error {
	codes, scale := w.dims(w.part(Codes)), w.dims(w.part(Scale))
	last := len(codes) - 1
	if last < 1 || len(scale) != len(codes) || !slices.Equal(scale[:last], codes[:last]) {
		return invalidf("scale %s of shape %v does not fit codes of shape %v", w.quotedName(Scale), scale, codes)
	}
	if w.part(GlobalScale) != nil {
		return unsupportedf("MLX's codes with a global scale (%s), as Ollama has them", w.quotedName(GlobalScale))
	}
	if w.notQuantized {
		w.params = w.config.params
	}
	if w.config.quantMethod == "" {
		return invalidf("bits and group size stand in no configuration")
	}
	words, groups := codes[last], scale[last] // of a row
	setMode := w.setMLXMode
	if w.format == "" || w.format == "affine" {
		setMode = w.setMLXIntegers
	}
	if err := setMode(words, groups); err != nil {
		return err
	}
	cols := words * 32 / w.bits // setMode has set the bits and the group size
	isWhole := words*32%w.bits == 0
	fits := groups <= cols/w.groupSize && groups*w.groupSize == cols // the first comparison keeps the product from overflowing
	if !isWhole || !fits {
		return invalidf("%d words of %d-bit codes are not %d groups of %d", words, w.bits, groups, w.groupSize)
	}
	w.Ordered, w.GroupRows, w.GroupCols, w.RowBytes = true, 1, w.groupSize, words*4
	return w.setMatrix(withLastDim(codes, cols))
}

// mlxBits and mlxGroupSize are MLX's defaults in mode affine: MLX may leave one of the two out of the configuration.
const mlxBits, mlxGroupSize = 4, 64

// setMLXIntegers sets code and biases of MLX's mode affine. words and groups are the numbers of words and groups in a row. If
// the configuration lacks either bits or group size, it takes mlxBits or mlxGroupSize instead. It fails if the configuration
// lacks both. It fails for a number of bits that MLX does not have, and without biases of the scales' shape. It fails if
// scales or biases are no floats, or if checkUnmatchedOverrides fails.
func (w *weight) setMLXIntegers(words, groups uint64) error {
	scale, bias := w.part(Scale), w.part(Bias)
	if w.bits == 0 && w.groupSize == 0 {
		return invalidf("bits and group size stand in no configuration")
	}
	if bias == nil {
		return invalidf("codes of mode affine without biases")
	}
	w.groupSize, w.bits = cmp.Or(w.groupSize, mlxGroupSize), cmp.Or(w.bits, mlxBits)
	if !slices.Contains([]uint64{2, 3, 4, 5, 6, 8}, w.bits) {
		return unsupportedf("codes of %d bits", w.bits)
	}
	if !isFloat(scale.DType) || bias.DType.Kind() != layout.KindFloat || !slices.Equal(w.dims(bias), w.dims(scale)) {
		return invalidf("bias %s of %v %v does not fit the scale's, %v %v", w.quotedName(Bias), bias.DType, w.dims(bias), scale.DType, w.dims(scale))
	}
	w.Code, w.Bias, w.HasOffsets = layout.Code(w.bits), true, true
	return w.checkUnmatchedOverrides(words, groups)
}

// checkUnmatchedOverrides looks at overrides of mode affine whose path is the path of no layer. Such an override may mean
// this layer under another name. words and groups are the numbers of words and groups in a row. An override fits if both make
// the same number of columns by its bits and group size. It returns an error if an override fits and has other bits or
// another group size than the weight.
func (w *weight) checkUnmatchedOverrides(words, groups uint64) error {
	for _, u := range w.config.unmatchedOverrides {
		p := w.config.overrideParams(&u)
		bits, groupSize := cmp.Or(p.bits, mlxBits), cmp.Or(p.groupSize, mlxGroupSize)
		isAffine := cmp.Or(p.format, "affine") == "affine"
		differs := bits != w.bits || groupSize != w.groupSize
		fits := words > 0 && words*32%bits == 0 && words*32/bits == groups*groupSize
		if isAffine && differs && fits {
			return invalidf("codes %s of %d bits in groups of %d may have %d bits in groups of %d: the configuration says so of %s, which is no layer", w.quotedName(Codes), w.bits, w.groupSize, bits, groupSize, layout.Quote(u.path))
		}
	}
	return nil
}

// setMLXMode sets code, bits, group size and scheme of one of mlxModes. words and groups are the numbers of words and groups
// in a row. It fails if there are biases, or if the mode is unknown. It also fails if bits, group size, shapes or the scales'
// type do not fit the mode.
func (w *weight) setMLXMode(words, groups uint64) error {
	scale, mode := w.part(Scale), w.format
	m, isKnown := mlxModes[mode]
	bits := uint64(m.code.Bits())
	switch {
	case !isKnown:
		return unsupportedf("MLX's mode %s is not decoded", layout.Quote(mode))
	case w.part(Bias) != nil:
		return invalidf("biases %s beside codes of mode %s, which has none", w.quotedName(Bias), mode)
	case w.bits != 0 && w.bits != bits, w.groupSize != 0 && w.groupSize != m.group:
		return invalidf("codes of mode %s in groups of %d with %d bits", mode, w.groupSize, w.bits)
	case words*32 != groups*m.group*bits:
		return invalidf("scales of shape %v do not fit codes of shape %v in mode %s", w.dims(scale), w.dims(w.part(Codes)), mode)
	case scale.DType != layout.U8 && scale.DType != m.scale: // MLX stores scales as bytes
		return invalidf("scale %s of type %v", w.quotedName(Scale), scale.DType)
	}
	w.Scheme, w.Code, w.scaleType, w.bits, w.groupSize = m.scheme, m.code, m.scale, bits, m.group
	return nil
}
