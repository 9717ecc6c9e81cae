package scheme

import (
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// qweightCompanions are companions of a .qweight.
var qweightCompanions = []companion{{end: ".qzeros", role: ZeroPoint}, {end: ".g_idx", role: GroupIndex}}

// packsColumns reports whether each word of a .qweight holds consecutive columns, as GPTQ's do, and not rows, as AWQ's do. GPTQ stores
// words of [in/k, out] beside scales of [groups, out], AWQ words of [in, out/k]: only GPTQ's have the width of the scales. Words without
// any width are GPTQ's unless the configuration says awq.
func packsColumns(c *Config, codes, scale *layout.Tensor) bool {
	return len(codes.Shape) == 2 && len(scale.Shape) == 2 && codes.Shape[1] == scale.Shape[1] && (codes.Shape[1] > 0 || c.quantMethod != "awq")
}

// packsRows returns the opposite of packsColumns. Shapes that are neither GPTQ's nor AWQ's pass too: AWQ's setForm refuses them.
func packsRows(c *Config, codes, scale *layout.Tensor) bool { return !packsColumns(c, codes, scale) }

// qweightParts returns the shapes of codes, scales and zero points of a weight of AWQ or GPTQ. It fails if the zero points are not of type
// I32, or if one of the three is not a matrix. The patterns have checked the rest.
func (w *weight) qweightParts() (codes, scale, zero []uint64, err error) {
	codes, scale, zero = w.dims(w.part(Codes)), w.dims(w.part(Scale)), w.dims(w.part(ZeroPoint))
	switch d := w.part(ZeroPoint).DType; {
	case len(codes) != 2 || len(scale) != 2:
		err = invalidf("codes of shape %v and scale %s of shape %v are no matrices", codes, w.quotedName(Scale), scale)
	case len(zero) != 2 || d != layout.I32:
		err = invalidf("zero points %s of %v %v are no matrix of words", w.quotedName(ZeroPoint), d, zero)
	}
	return codes, scale, zero, err
}

// gptqBits returns how many columns (inputs) a matrix of GPTQ has, and the bits of a code. codes, scale and zero are the shapes
// that qweightParts returns. The bits are those of the configuration. If it has none, they are the only number of bits that
// fits the shapes of all parts. It fails if no number fits, if that of the configuration does not, or if several do and the
// configuration has none. Without a group index it fails unless the columns are a multiple of 32. The last word of others has
// unused bits, and nothing tells how many.
func (w *weight) gptqBits(codes, scale, zero []uint64) (in, bits uint64, err error) {
	isIndexed := w.part(GroupIndex) != nil
	if isIndexed {
		in = w.elementsOf(GroupIndex)
	}
	rowsOfWords, groups, out := codes[0], scale[0], scale[1]
	fitting := slices.DeleteFunc([]uint64{2, 3, 4, 5, 6, 7, 8}, func(b uint64) bool {
		codesFit := isIndexed && rowsOfWords == ceilDiv(in*b, 32) || !isIndexed && rowsOfWords*32%b == 0
		return !codesFit || !slices.Equal(zero, []uint64{groups, ceilDiv(out*b, 32)})
	})
	switch bits = w.bits; {
	case len(fitting) == 0:
		return 0, 0, invalidf("codes of shape %v, zero points of shape %v, scales of shape %v and %d columns in %s do not fit", codes, zero, scale, in, w.quotedName(GroupIndex))
	case bits != 0 && !slices.Contains(fitting, bits):
		return 0, 0, invalidf("codes %s have %d bits, and %d by the configuration", w.quotedName(Codes), fitting[0], bits)
	case bits == 0 && len(fitting) > 1:
		return 0, 0, invalidf("codes %s may have any of %v bits, and the configuration has no bits", w.quotedName(Codes), fitting)
	case bits == 0:
		bits = fitting[0]
	}
	if !isIndexed {
		in = rowsOfWords * 32 / bits
		if in%32 != 0 {
			return 0, 0, invalidf("%d rows of codes of %d bits without a group index (.g_idx) do not tell how many of %d columns there are", rowsOfWords, bits, in)
		}
	}
	return in, bits, nil
}

// unknownPacking stands for the packing of an unknown program, which is never PackRows.
const unknownPacking = layout.PackRows

// packingOfWriter returns how the program packs codes of 5, 6 and 7 bits that the configuration names, as provider or in
// meta.quantizer: auto-round in one stream of bits, GPTQModel in bit planes. It returns unknownPacking for another program.
func (c *Config) packingOfWriter() layout.Packing {
	meta, _ := object(c.quantization, "meta")
	v, _ := meta.Get("quantizer")
	quantizer, _ := v.(string) // the program and its release, or a list that begins with them
	if list, _ := layout.As[[]string](v); len(list) > 0 {
		quantizer = list[0]
	}
	switch {
	case c.quantMethod == "auto-round" || c.text("provider") == "auto-round":
		return layout.PackGPTQ
	case strings.HasPrefix(quantizer, "gptqmodel"):
		return layout.PackPlanes
	}
	return unknownPacking
}
