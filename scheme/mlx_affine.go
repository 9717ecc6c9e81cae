package scheme

import (
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// mlxAffine is MLX: integers with a scale and a bias for each group, and its modes without biases. Sources: MLX 0.32.4
// mlx/backend/cpu/quantized.cpp, mlx-lm utils.py; Ollama x/create/client/quantize.go.
type mlxAffine struct{}

// names lists how the parts of a weight are named and typed by MLX and Ollama.
func (mlxAffine) names() []pattern {
	all := floats | u8 | e8m0 | e4m3
	return []pattern{
		{scheme: MLXAffine, codes: ".weight", name: ".weight", kinds: uwords, scales: []string{".scales"}, by: all, others: companions(Bias, ".biases")},
		{scheme: MLXAffine, codes: ".weight", name: ".weight", kinds: uwords, scales: []string{".weight.scale"}, by: all, // Ollama
			others: append(companions(Bias, ".weight.bias"), companions(GlobalScale, ".weight.global_scale")...)},
	}
}

func (s mlxAffine) params(*Config) (scheme, error) { return s, nil }

// mlxModes are MLX's modes without biases, told by the words of a group.
var mlxModes = []struct {
	name, scheme string
	code         layout.Code
	group        uint64
	scale        layout.DType
}{
	{"mxfp4", MXFP4, layout.CodeE2M1, 32, layout.F8_E8M0},
	{"mxfp8", FP8, layout.CodeE4M3, 32, layout.F8_E8M0},
	{"nvfp4", NVFP4, layout.CodeE2M1, 16, layout.F8_E4M3},
}

// form finds the form of codes in words by the configuration's mode, bits and group size. It fails without a
// configuration, or if words and groups do not make the same columns.
func (s mlxAffine) form(w *weight) (scheme, error) {
	codes, scale := w.dims(w.part(Codes)), w.dims(w.part(Scale))
	last := len(codes) - 1
	if last < 1 || len(scale) != len(codes) || !slices.Equal(scale[:last], codes[:last]) {
		return nil, misfit("scale %s of shape %v does not fit codes of shape %v", w.name(Scale), scale, codes)
	}
	if w.part(GlobalScale) != nil {
		return nil, unsupported("MLX's codes with a global scale (%s), as Ollama has them", w.name(GlobalScale))
	}
	if w.plain {
		w.params = w.conf.params // the companions are there all the same
	}
	if w.conf.method == "" {
		return nil, misfit("bits and group size stand in no configuration")
	}
	words, groups := codes[last], scale[last]
	err := w.mlxMode(words, groups)
	if w.format == "" || w.format == "affine" {
		err = w.mlxIntegers(words, groups)
	}
	if err != nil {
		return nil, err
	}
	cols := words * 32 / w.bits
	if words*32%w.bits != 0 || groups > cols/w.group || groups*w.group != cols {
		return nil, misfit("%d words of %d-bit codes are not %d groups of %d", words, w.bits, groups, w.group)
	}
	w.Ordered, w.GroupRows, w.GroupCols, w.RowBytes = true, 1, w.group, words*4
	return s, w.matrix(widened(codes, cols))
}

// mlxIntegers sets code and biases of the mode affine. Bits and group size default to 4 and 64. It fails if an
// override that names no layer fits these codes too: it may mean them.
func (w *weight) mlxIntegers(words, groups uint64) error {
	scale, bias := w.part(Scale), w.part(Bias)
	if w.bits == 0 && w.group == 0 {
		return misfit("bits and group size stand in no configuration")
	}
	if bias == nil {
		return misfit("codes of mode affine without biases")
	}
	w.group, w.bits = cmp.Or(w.group, 64), cmp.Or(w.bits, 4)
	if !slices.Contains([]uint64{2, 3, 4, 5, 6, 8}, w.bits) {
		return unsupported("codes of %d bits", w.bits)
	}
	if !isFloat(scale.DType) || bias.DType.Kind() != layout.KindFloat || !slices.Equal(w.dims(bias), w.dims(scale)) {
		return misfit("bias %s of %v %v does not fit the scale's, %v %v", w.name(Bias), bias.DType, w.dims(bias), scale.DType, w.dims(scale))
	}
	for _, u := range w.conf.unmatched { // may mean this layer, if its sizes fit too
		bits, group := cmp.Or(u.bits, 4), cmp.Or(u.group, 64)
		if cmp.Or(u.format, "affine") == "affine" && words > 0 && (bits != w.bits || group != w.group) && words*32%bits == 0 && words*32/bits == groups*group {
			return misfit("codes %s of %d bits in groups of %d may have %d bits in groups of %d: the configuration says so of %s, which is no layer", w.name(Codes), w.bits, w.group, bits, group, layout.Quote([]byte(u.path)))
		}
	}
	w.Code, w.Bias, w.HasOffsets, w.scaleType = layout.Code(w.bits), true, true, scale.DType
	return nil
}

// mlxMode sets the code of a mode without biases, such as mxfp4. It fails if there are biases, sizes do not fit, or
// the mode is not known.
func (w *weight) mlxMode(words, groups uint64) error {
	scale, mode := w.part(Scale), w.format
	for _, m := range mlxModes {
		if m.name != mode {
			continue
		}
		bits := uint64(m.code.Bits())
		switch {
		case w.part(Bias) != nil:
			return misfit("biases %s beside codes of mode %s, which has none", w.name(Bias), mode)
		case w.bits != 0 && w.bits != bits, w.group != 0 && w.group != m.group:
			return misfit("codes of mode %s in groups of %d with %d bits", mode, w.group, w.bits)
		case words*32 != groups*m.group*bits:
			return misfit("scales of shape %v do not fit codes of shape %v in mode %s", w.dims(scale), w.dims(w.part(Codes)), mode)
		case scale.DType != layout.U8 && scale.DType != m.scale:
			return misfit("scale %s of type %v", w.name(Scale), scale.DType)
		}
		w.Scheme, w.Code, w.scaleType, w.bits, w.group = m.scheme, m.code, m.scale, bits, m.group
		return nil
	}
	return unsupported("MLX's mode %s is not decoded", layout.Quote([]byte(mode)))
}

// scales reads the scales, and the biases if the mode has some.
func (mlxAffine) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	biases := Codes // none
	if f.Bias {
		biases = Bias
	}
	return direct(p, f, dst, from, biases)
}
