package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// gptq is GPTQ: words along the columns. The writer decides what its parts mean, and the tensors do not tell. Sources:
// GPTQModel 7.7.0 (nn_modules/qlinear/__init__.py, utils/planar_packing.py), AutoGPTQ 0.7.1 (quantization/config.py),
// auto-round 0.16.1 (export/export_to_autoround/export.py, inference/backend.py and convert_model.py).
type gptq struct {
	format      gptqFormat
	err         error  // why the format is not known
	provider    string // the program that wrote the codes, if it is auto-round
	quantizer   string // meta.quantizer: the program and its release, of GPTQModel
	actOrder    bool   // groups are said not to be consecutive
	inBitPlanes bool   // codes and zero points are in bit planes
	symmetric   bool   // the zero point of every group is 2^(bits−1)
	groupIndex  columnGroups
}

// A gptqFormat says how a format stores zero points, and codes of 5, 6 and 7 bits.
type gptqFormat struct {
	zeroLessOne bool // the stored zero point is less one
	packing     widePacking
}

// widePacking says how codes of 5, 6 and 7 bits lie, which do not fill words. Codes of 3 bits are dense but in allPlanes.
type widePacking uint8

const (
	packedByWriter widePacking = iota // as the program does that the configuration names
	inPlanes                          // GPTQModel's bit planes
	allPlanes                         // its format of planes, which codes of 3 bits have too
	oneBitStream                      // one stream of bits, as codes of 3 bits
)

// gptqFormats lists the formats that are known, by the method and the name of the format. checkpoint_format (older:
// format) names it for gptq, packing_format for auto-round. Without a name both mean the first of theirs.
var gptqFormats = map[string]map[string]gptqFormat{
	"gptq": {
		"":        {zeroLessOne: true},
		"gptq":    {zeroLessOne: true},
		"gptq_v2": {},
		"gptq_p":  {packing: allPlanes},
	},
	"auto-round": {
		"":                     {zeroLessOne: true, packing: oneBitStream},
		"auto":                 {zeroLessOne: true, packing: oneBitStream},
		"auto_round:gptq":      {zeroLessOne: true, packing: oneBitStream},
		"auto_round:auto_gptq": {zeroLessOne: true, packing: oneBitStream},
		"auto_round":           {packing: oneBitStream},
		"auto_round:gptqmodel": {packing: oneBitStream},
	},
}

// patterns lists how the parts of a weight are named and typed by GPTQ's writers.
func (gptq) patterns() []pattern {
	return []pattern{{
		schemeName: GPTQ, codesEnd: ".qweight", nameEnd: ".weight", codesTypes: i32Codes, scaleEnds: []string{".scales"}, scaleTypes: floatScales, nameDecides: true,
		companions:    []companion{{end: ".qzeros", role: ZeroPoint}, {end: ".g_idx", role: GroupIndex}},
		acceptsShapes: packsColumns,
	}}
}

// configure reads the format, and which program wrote it. It fails if the configuration names two formats. An unknown
// format is an error of GPTQ's weights only.
func (g gptq) configure(c *Config) (scheme, error) {
	meta, _ := object(c.quantization, "meta")
	g.provider, g.quantizer = text(c.quantization, "provider"), text(meta, "quantizer")
	if list, _ := meta.Get("quantizer"); g.quantizer == "" {
		if names, ok := layout.As[[]string](list); ok && len(names) > 0 {
			g.quantizer = names[0]
		}
	}
	act, _ := c.quantization.Get("desc_act")
	g.actOrder = act == true
	key, format, older := "checkpoint_format", strings.ToLower(text(c.quantization, "checkpoint_format")), strings.ToLower(text(c.quantization, "format"))
	if c.quantMethod == GPTQ && format != "" && older != "" && format != older { // transformers takes the first, GPTQModel the second
		return g, invalidf("the configuration's checkpoint_format is %s, and its format %s", layout.Quote([]byte(format)), layout.Quote([]byte(older)))
	}
	format = cmp.Or(format, older)
	if c.quantMethod == "auto-round" {
		key, format = "packing_format", strings.ToLower(text(c.quantization, "packing_format"))
	}
	known := false
	if g.format, known = gptqFormats[c.quantMethod][format]; !known {
		g.err = unsupportedf("gptq in the format %s, which is not known (%s)", layout.Quote([]byte(format)), key)
	}
	switch {
	case g.format.packing != packedByWriter:
	case g.provider == "auto-round":
		g.format.packing = oneBitStream
	case strings.HasPrefix(g.quantizer, "gptqmodel"):
		g.format.packing = inPlanes
	}
	return g, nil
}

// setForm sets shape, bits and packing of the weight. It fails without a configuration, which alone tells how zero points
// are stored, or if parts do not fit.
func (g gptq) setForm(w *weight) (scheme, error) {
	codes, scale, zero, err := w.qweightParts()
	switch {
	case err != nil:
		return nil, err
	case w.config.quantMethod == "":
		return nil, unsupportedf("codes of gptq without a configuration: config.json or quantize_config.json beside the file says whether zero points are stored less one (quant_method, checkpoint_format)")
	case g.err != nil:
		return nil, g.err
	}
	out, groups, isIndexed := w.dims(scale)[1], w.dims(scale)[0], w.part(GroupIndex) != nil
	if !isIndexed && groups > 1 && g.actOrder {
		return nil, invalidf("codes without the group index (.g_idx) that the configuration speaks of (desc_act)")
	}
	in, bits, err := w.gptqBits(codes, scale, zero)
	if err != nil {
		return nil, err
	}
	if err := w.setMatrix([]uint64{out, in}); err != nil {
		return nil, err
	}
	w.Code, w.Pack, w.GroupRows, w.scaleType, w.HasOffsets = layout.Code(bits), layout.PackGPTQ, 1, scale.DType, true
	g.symmetric = w.symmetric != no // which all three writers take for yes if it is unsaid
	isWide := bits >= 5 && bits <= 7
	if isWide && g.format.packing == packedByWriter {
		return nil, unsupportedf("gptq of %d bits by an unknown program, which may be bit planes or one stream (the configuration has neither meta.quantizer nor provider)", bits)
	}
	// Codes whose bits divide a word have one plane, which is how all formats store them.
	if isWide && g.format.packing == inPlanes || 32%bits != 0 && g.format.packing == allPlanes {
		if out%32 != 0 || in%32 != 0 {
			return nil, invalidf("bit planes of %d rows and %d columns, no multiples of 32", out, in)
		}
		w.Pack, g.inBitPlanes, g.format.zeroLessOne = layout.PackPlanes, true, false
	}
	if g.groupIndex, err = w.findGroupIndex(); err != nil {
		return nil, err
	}
	g.groupIndex.mustBeSet, g.groupIndex.ignoresAllZeros = true, !g.actOrder
	err = w.setGroupCols(groups)
	if err != nil && w.ScaleCols > 0 && isIndexed && groups <= in {
		w.GroupCols, g.groupIndex.ignoresAllZeros, err = ceilDiv(in, groups), false, nil // the index tells
	}
	return g, err
}

// packsColumns reports whether each word of codes holds consecutive columns, as GPTQ's do, and not rows, as AWQ's do. The shapes of
// codes and scale tell. For a matrix without elements the configuration tells.
func packsColumns(c *Config, codes, scale *layout.Tensor) bool {
	return len(codes.Shape) == 2 && len(scale.Shape) == 2 && codes.Shape[1] == scale.Shape[1] && (codes.Shape[1] > 0 || c.quantMethod != "awq")
}

// qweightParts returns codes, scales and zero points of a weight of AWQ or GPTQ. It fails if one of them is missing or
// is not a matrix.
func (w *weight) qweightParts() (codes, scale, zero *layout.Tensor, err error) {
	codes, scale, zero = w.part(Codes), w.part(Scale), w.part(ZeroPoint)
	switch {
	case len(w.dims(codes)) != 2 || len(w.dims(scale)) != 2:
		err = invalidf("codes of shape %v and scale %s of shape %v are no matrices", w.dims(codes), w.quotedName(Scale), w.dims(scale))
	case zero == nil:
		err = invalidf("codes without zero points (.qzeros)")
	case len(w.dims(zero)) != 2 || zero.DType != layout.I32:
		err = invalidf("zero points %s of %v %v are no matrix of words", w.quotedName(ZeroPoint), zero.DType, w.dims(zero))
	}
	return codes, scale, zero, err
}

// gptqBits returns how many columns (inputs) a matrix of GPTQ has, and the bits of a code. The bits are the configuration's, or the
// only ones that fit the shapes of codes, scale, zero points and group index. It fails if none or several fit.
func (w *weight) gptqBits(codes, scale, zero *layout.Tensor) (in, bits uint64, err error) {
	isIndexed := w.part(GroupIndex) != nil
	if isIndexed {
		in = w.elementsOf(GroupIndex)
	}
	rows, groups, out := w.dims(codes)[0], w.dims(scale)[0], w.dims(scale)[1]
	var fits []uint64
	for b := uint64(2); b <= 8; b++ {
		if w.dims(zero)[1] == ceilDiv(out*b, 32) && w.dims(zero)[0] == groups && (isIndexed && rows == ceilDiv(in*b, 32) || !isIndexed && rows*32%b == 0) {
			fits = append(fits, b)
		}
	}
	switch bits = w.bits; {
	case len(fits) == 0:
		return 0, 0, invalidf("codes of shape %v, zero points of shape %v, scales of shape %v and %d columns in %s do not fit", w.dims(codes), w.dims(zero), w.dims(scale), in, w.quotedName(GroupIndex))
	case bits != 0 && !slices.Contains(fits, bits):
		return 0, 0, invalidf("codes %s have %d bits, and %d by the configuration", w.quotedName(Codes), fits[0], bits)
	case bits == 0 && len(fits) > 1:
		return 0, 0, invalidf("codes %s may have any of %v bits, and the configuration has no bits", w.quotedName(Codes), fits)
	case bits == 0:
		bits = fits[0]
	}
	if !isIndexed {
		if in = rows * 32 / bits; in%32 != 0 {
			return 0, 0, invalidf("%d rows of codes of %d bits without a group index (.g_idx) do not tell how many of %d columns there are", rows, bits, in)
		}
	}
	return in, bits, nil
}

// readScales reads all scales, zero points and the group index. It transposes scales and zero points, which are stored by groups of
// columns. It fails if reading does, or for zero points that programs read differently.
func (g gptq) readScales(p Parts, f *Form, dst *Scales, _ uint64) error {
	if err := readTransposedScales(p, f, dst.Scales); err != nil {
		return err
	}
	rows, groups := f.Rows, f.scaleCols()
	zeros := make([]float32, rows*groups)
	packed, blocks := dequant.Grouped{Code: f.Code, Rows: groups, Cols: rows, RowBytes: 4 * ceilDiv(rows*uint64(f.Code.Bits()), 32)}, uint64(1)
	if g.inBitPlanes { // each group a column of words, of one row
		packed, blocks = dequant.Grouped{Code: f.Code, Pack: layout.PackPlanes, Rows: 1, Cols: rows}, groups
	}
	if err := readPackedIntegers(p, ZeroPoint, packed, blocks, zeros); err != nil {
		return err
	}
	if err := g.correctZeroPoints(zeros, f.Code.Bits()); err != nil {
		return p.Wrap(ZeroPoint, err)
	}
	dst.extendOffsets()
	transpose(dst.Offsets, zeros, groups, rows)
	return g.groupIndex.read(p, f, dst)
}

// correctZeroPoints replaces zeros, stored zero points, by those to subtract from codes of the given number of bits. It takes the
// middle of all codes if codes are symmetric. Otherwise it adds one if the format stores them less one. It fails for values that
// programs read differently.
func (g gptq) correctZeroPoints(zeros []float32, bits int) error {
	middle := float32(uint(1) << (bits - 1))
	for i, z := range zeros {
		switch {
		case g.symmetric && (z != zeros[0] || z != middle && z != middle-1): // programs disagree about lessOne
			return invalidf("zero point %d is %v, and codes of %d bits that are symmetric (the configuration's sym: true, or none) have %v, or %v less one, everywhere", i, z, bits, middle, middle)
		case !g.symmetric && g.format.zeroLessOne && z+1 == 2*middle: // all ones, which programs read as 0, 2^bits, or with a carry
			return unsupportedf("zero point %d is stored as %v, whose value programs disagree about if it is less one (checkpoint_format: gptq)", i, z+1)
		}
	}
	for i := range zeros {
		switch {
		case g.symmetric:
			zeros[i] = middle
		case g.format.zeroLessOne:
			zeros[i]++
		}
	}
	return nil
}
