package scheme

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// gptq is GPTQ: words along the columns. The writer decides what its parts mean, and the tensors do not tell. Sources:
// GPTQModel 7.7.0 (nn_modules/qlinear/__init__.py, utils/planar_packing.py), AutoGPTQ 0.7.1 (quantization/config.py),
// auto-round 0.16.1 (export/export_to_autoround/export.py, inference/backend.py and convert_model.py).
var gptq = scheme{GPTQ, (*weight).setGPTQ, []pattern{{
	codesEnd: ".qweight", codesTypes: i32, scaleEnds: []string{".scales"}, scaleTypes: floats, nameTellsScheme: true, companions: qweightCompanions, required: []Role{ZeroPoint}, acceptsShapes: packsColumns,
}}}

// gptqFormats lists the known formats, by the method and the name of the format, with true if zero points are stored less one. The
// configuration names the format under checkpoint_format (older: format) for gptq, and under packing_format for auto-round. The name "" is
// for configurations that name no format.
var gptqFormats = map[string]map[string]bool{
	"gptq": {"": true, "gptq": true, "gptq_v2": false, planesFormat: false},
	"auto-round": {
		"": true, "auto": true, "auto_round:gptq": true, "auto_round:auto_gptq": true, "auto_round": false, "auto_round:gptqmodel": false,
	},
}

// planesFormat is GPTQModel's format in which codes of 3 bits lie in bit planes too.
const planesFormat = "gptq_p"

// setGPTQ sets shape, bits, packing and groups of the weight [out, in]. Scales are [groups, out]. It fails without a
// configuration, since nothing else tells how zero points are stored. It fails for an unknown format, and if parts do not fit
// each other. It also fails if the configuration speaks of a group index and there is none, unless there is only one group.
func (w *weight) setGPTQ() error {
	codes, scale, zero, err := w.qweightParts()
	switch {
	case err != nil:
		return err
	case w.config.quantMethod == "":
		return unsupportedf("codes of gptq without a configuration: config.json or quantize_config.json beside the file says whether zero points are stored less one (quant_method, checkpoint_format)")
	}
	key, format := "checkpoint_format", cmp.Or(w.config.text("checkpoint_format"), w.config.text("format"))
	if w.config.quantMethod == "auto-round" {
		key, format = "packing_format", w.config.text("packing_format")
	}
	format = strings.ToLower(format)
	isLessOne, isKnown := gptqFormats[w.config.quantMethod][format]
	if !isKnown {
		return unsupportedf("gptq in the format %s, which is not known (%s)", layout.Quote(format), key)
	}
	groups, out := scale[0], scale[1]
	if w.part(GroupIndex) == nil && groups > 1 && w.config.descAct {
		return invalidf("codes without the group index (.g_idx) that the configuration speaks of (desc_act)")
	}
	in, bits, err := w.gptqBits(codes, scale, zero)
	if err := cmp.Or(err, w.setMatrix([]uint64{out, in})); err != nil {
		return err
	}
	w.Code, w.GroupRows, w.HasOffsets = layout.Code(bits), 1, true
	if w.Pack, err = w.gptqPacking(bits, format); err != nil {
		return err
	}
	w.reader = gptqZeros{
		areMiddle: w.symmetric != no, // AutoGPTQ, GPTQModel and auto-round take a missing answer for yes
		lessOne:   isLessOne && w.Pack != layout.PackPlanes,
	}
	return w.setGPTQGroups(groups)
}

// gptqBits returns how many columns (inputs) a matrix of GPTQ has, and the bits of a code. codes, scale and zero are the shapes
// that qweightParts returns. The bits are the number in the configuration. If it has none, they are the only number of bits that
// fits the shapes of all parts. It fails if no number fits, if the number in the configuration does not, or if several do and the
// configuration has none. Without a group index it fails unless the columns are a multiple of 32: otherwise the last words may
// have unused bits, and nothing tells how many.
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

// gptqPacking returns how codes are packed. Codes of 2, 4 and 8 bits are packed in one way only. Codes of other bits lie in
// bit planes if format is planesFormat. In other formats, codes of 3 bits are packed as PackGPTQ says, and codes of 5, 6 and
// 7 bits as w.config.packingOfWriter says. gptqPacking fails if that is unknownPacking. For bit planes it also fails unless
// rows and columns are multiples of 32.
func (w *weight) gptqPacking(bits uint64, format string) (layout.Packing, error) {
	pack := layout.PackGPTQ
	switch {
	case 32%bits == 0: // all formats store such codes in one plane
	case format == planesFormat:
		pack = layout.PackPlanes
	case bits != 3:
		pack = w.config.packingOfWriter
	}
	switch {
	case pack == unknownPacking:
		return 0, unsupportedf("gptq of %d bits by an unknown program, which may be bit planes or one stream (the configuration has neither meta.quantizer nor provider)", bits)
	case pack == layout.PackPlanes && (w.Rows%32 != 0 || w.Cols%32 != 0):
		return 0, invalidf("bit planes of %d rows and %d columns, no multiples of 32", w.Rows, w.Cols)
	}
	return pack, nil
}

// setGPTQGroups sets w.groupIndex, and w.GroupCols by setGroupCols. groups is the number of scales for a row. If no size of groups fits,
// the index alone tells the group of each column. w.GroupCols is then no real size, and w.Permuted is true. An index of zeros alone
// stands for groups of consecutive columns, unless no size fits or the configuration has desc_act. setGPTQGroups fails if setGroupIndex
// does. If no size fits, it also fails in three cases: there is no index, groups is not in 1 to w.Cols, or a row is one group by the
// configuration.
func (w *weight) setGPTQGroups(groups uint64) error {
	if err := w.setGroupIndex(); err != nil {
		return err
	}
	w.groupIndex.mustBeSet, w.groupIndex.zerosMeanConsecutive = true, !w.config.descAct
	err := w.setGroupCols(groups)
	indexTells := w.part(GroupIndex) != nil && 0 < groups && groups <= w.Cols && !w.groupIsRow
	if err != nil && indexTells {
		w.GroupCols, w.groupIndex.zerosMeanConsecutive = ceilDiv(w.Cols, groups), false
		w.Permuted = true // so that all scales of a row are read: columns divided by w.GroupCols may be less than groups
		return nil
	}
	return err
}

// gptqZeros says how zero points are stored.
type gptqZeros struct {
	areMiddle bool // codes are symmetric: the zero point of every group is 2^(bits−1)
	lessOne   bool // the stored zero point is less one
}

// readScales reads all scales and zero points; from is always 0. Both are stored as [groups, out], and it transposes them. The zero
// points of each group are packed like codes, and begin with a new word. It fails if reading or correct does.
func (z gptqZeros) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, _ uint64) error {
	if err := readTransposedScales(ctx, p, f, dst.Scales); err != nil {
		return err
	}
	groups := f.scaleCols()
	zeros := make([]float32, f.Rows*groups)
	ofGroup := dequant.Grouped{Code: f.Code, Rows: 1, Cols: f.Rows} // in words, or planes, of its own
	if f.Pack == layout.PackPlanes {
		ofGroup.Pack = layout.PackPlanes
	}
	if err := readPackedZeroPoints(ctx, p, ofGroup, groups, zeros); err != nil {
		return err
	}
	if err := z.correct(zeros, f.Code.Bits()); err != nil {
		return p.Wrap(ZeroPoint, err)
	}
	transpose(dst.Offsets, zeros, groups, f.Rows)
	return nil
}

// correct replaces zeros, stored zero points, by the numbers to subtract from codes of the given number of bits. For symmetric codes that is
// the middle, 2^(bits−1). Programs disagree about whether the middle or one less is stored: correct takes either, but fails unless all
// zeros are the same. To zero points of other codes it adds one if the format stores them less one. It then fails for a stored 2^bits−1,
// which programs read as 0, as 2^bits, or with a carry.
func (z gptqZeros) correct(zeros []float32, bits int) error {
	middle := float32(uint(1) << (bits - 1))
	var first float32
	for i, v := range zeros {
		if i == 0 {
			first = v
		}
		switch {
		case z.areMiddle && (v != first || v != middle && v != middle-1):
			return invalidf("zero point %d is %v, and codes of %d bits that are symmetric (the configuration's sym: true, or none) have %v, or %v less one, everywhere", i, v, bits, middle, middle)
		case z.areMiddle:
			zeros[i] = middle
		case z.lessOne && v+1 == 2*middle:
			return unsupportedf("zero point %d is stored as %v, whose value programs disagree about if it is less one (checkpoint_format: gptq)", i, v+1)
		case z.lessOne:
			zeros[i]++
		}
	}
	return nil
}

// qweightCompanions are companions of a .qweight.
var qweightCompanions = []companion{{end: ".qzeros", role: ZeroPoint}, {end: ".g_idx", role: GroupIndex}}

// packsColumns reports whether a .qweight is packed as GPTQ packs it, and not as AWQ does. Codes of GPTQ have the shape
// [in/k, out], beside scales of [groups, out]. Codes of AWQ have the shape [in, out/k]. So only codes of GPTQ are as wide as
// the scales. Codes of width 0 are GPTQ's unless the configuration says awq.
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
