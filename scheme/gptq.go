package scheme

import (
	"cmp"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// gptq is GPTQ: words along the columns. The writer decides what its parts mean, and the tensors do not tell. Sources:
// GPTQModel 7.7.0 (nn_modules/qlinear/__init__.py, utils/planar_packing.py), AutoGPTQ 0.7.1 (quantization/config.py),
// auto-round 0.16.1 (export/export_to_autoround/export.py, inference/backend.py and convert_model.py).
type gptq struct {
	format      gptqFormat
	formatErr   error // why the format is not known
	hasActOrder bool  // groups are said not to be consecutive
	inBitPlanes bool  // codes and zero points are in bit planes
	isSymmetric bool  // the zero point of every group is 2^(bits−1)
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
	packedByWriter widePacking = iota // as the program does that the configuration names: see packingOfWriter
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

// patterns lists how GPTQ's writers name and type the parts of a weight. AWQ's names are the same: packsColumns tells by the shapes.
func (gptq) patterns() []pattern {
	return []pattern{{
		schemeName: GPTQ, codesEnd: ".qweight", nameEnd: ".weight", codesTypes: i32Codes, scaleEnds: []string{".scales"}, scaleTypes: floatScales, nameDecides: true,
		companions:    []companion{{end: ".qzeros", role: ZeroPoint}, {end: ".g_idx", role: GroupIndex}},
		acceptsShapes: packsColumns,
	}}
}

// configure reads the format, and the packing of the program that wrote the codes. It fails if a configuration of GPTQ names
// two different formats. For an unknown format, or another method, it returns no error. It sets formatErr, which setForm
// returns for weights of GPTQ.
func (g gptq) configure(c *Config) (scheme, error) {
	actOrder, _ := c.quantization.Get("desc_act")
	g.hasActOrder = actOrder == true
	key, format := "checkpoint_format", strings.ToLower(text(c.quantization, "checkpoint_format"))
	olderName := strings.ToLower(text(c.quantization, "format"))
	if c.quantMethod == GPTQ && format != "" && olderName != "" && format != olderName { // transformers takes the first, GPTQModel the second
		return g, invalidf("the configuration's checkpoint_format is %s, and its format %s", layout.Quote([]byte(format)), layout.Quote([]byte(olderName)))
	}
	format = cmp.Or(format, olderName)
	if c.quantMethod == "auto-round" {
		key, format = "packing_format", strings.ToLower(text(c.quantization, "packing_format"))
	}
	isKnown := false
	if g.format, isKnown = gptqFormats[c.quantMethod][format]; !isKnown {
		g.formatErr = unsupportedf("gptq in the format %s, which is not known (%s)", layout.Quote([]byte(format)), key)
	}
	if g.format.packing == packedByWriter {
		g.format.packing = packingOfWriter(c.quantization)
	}
	return g, nil
}

// packingOfWriter returns the packing of the program that q names, as provider or in meta.quantizer. It returns oneBitStream
// for auto-round, and inPlanes for GPTQModel. It returns packedByWriter for an unknown program.
func packingOfWriter(q layout.Metadata) widePacking {
	meta, _ := object(q, "meta")
	quantizer := text(meta, "quantizer") // the program and its release, or a list that begins with them
	if v, _ := meta.Get("quantizer"); quantizer == "" {
		if list, _ := layout.As[[]string](v); len(list) > 0 {
			quantizer = list[0]
		}
	}
	switch {
	case text(q, "provider") == "auto-round":
		return oneBitStream
	case strings.HasPrefix(quantizer, "gptqmodel"):
		return inPlanes
	}
	return packedByWriter
}

// setForm sets shape, bits, packing and groups of the weight [out, in]. Scales are [groups, out]. It fails without a
// configuration, since nothing else tells how zero points are stored. It fails for an unknown format, and if parts do not fit
// each other. It also fails if the configuration speaks of a group index and there is none, unless there is only one group.
func (g gptq) setForm(w *weight) (scheme, error) {
	codes, scale, zero, err := w.qweightParts()
	switch {
	case err != nil:
		return nil, err
	case w.config.quantMethod == "":
		return nil, unsupportedf("codes of gptq without a configuration: config.json or quantize_config.json beside the file says whether zero points are stored less one (quant_method, checkpoint_format)")
	case g.formatErr != nil:
		return nil, g.formatErr
	}
	groups, out := w.dims(scale)[0], w.dims(scale)[1]
	if w.part(GroupIndex) == nil && groups > 1 && g.hasActOrder {
		return nil, invalidf("codes without the group index (.g_idx) that the configuration speaks of (desc_act)")
	}
	in, bits, err := w.gptqBits(codes, scale, zero)
	if err != nil {
		return nil, err
	}
	if err := w.setMatrix([]uint64{out, in}); err != nil {
		return nil, err
	}
	w.Code, w.GroupRows, w.scaleType, w.HasOffsets = layout.Code(bits), 1, scale.DType, true
	g.isSymmetric = w.symmetric != no // AutoGPTQ, GPTQModel and auto-round take a missing answer for yes
	if err := g.setPacking(w, bits); err != nil {
		return nil, err
	}
	return g, g.setGroups(w, groups)
}

// setPacking sets w.Pack and g.inBitPlanes, which says whether codes lie in bit planes. Zero points in planes are not stored
// less one, so it then clears g.format.zeroLessOne. It fails for codes of 5, 6 and 7 bits by an unknown program. For planes it
// fails unless rows and columns are multiples of 32.
func (g *gptq) setPacking(w *weight, bits uint64) error {
	w.Pack = layout.PackGPTQ
	isWide := bits >= 5 && bits <= 7
	if isWide && g.format.packing == packedByWriter {
		return unsupportedf("gptq of %d bits by an unknown program, which may be bit planes or one stream (the configuration has neither meta.quantizer nor provider)", bits)
	}
	// Codes whose bits divide a word have one plane, which is how all formats store them.
	g.inBitPlanes = isWide && g.format.packing == inPlanes || 32%bits != 0 && g.format.packing == allPlanes
	if !g.inBitPlanes {
		return nil
	}
	if w.Rows%32 != 0 || w.Cols%32 != 0 {
		return invalidf("bit planes of %d rows and %d columns, no multiples of 32", w.Rows, w.Cols)
	}
	w.Pack, g.format.zeroLessOne = layout.PackPlanes, false
	return nil
}

// setGroups sets g.groupIndex, and w.GroupCols by setGroupCols. groups is the number of scales for a row. If no group size
// fits, the group index alone tells the groups, and w.GroupCols is made up. The index cannot decide if the configuration has
// one group for a row. setGroups fails if findGroupIndex does, or if neither group size nor index fits.
func (g *gptq) setGroups(w *weight, groups uint64) (err error) {
	if g.groupIndex, err = w.findGroupIndex(); err != nil {
		return err
	}
	g.groupIndex.mustBeSet, g.groupIndex.ignoresAllZeros = true, !g.hasActOrder
	err = w.setGroupCols(groups)
	indexTells := w.part(GroupIndex) != nil && 0 < groups && groups <= w.Cols && !w.groupIsRow
	if err != nil && indexTells {
		w.GroupCols, g.groupIndex.ignoresAllZeros = ceilDiv(w.Cols, groups), false
		return nil
	}
	return err
}

// readScales reads all scales, zero points and the group index; from is always 0. Scales and zero points are stored as
// [groups, out], and it transposes them. The zero points of each group are packed like codes, and begin with a new word. It
// fails if reading or correctZeroPoints does, or for a wrong group index.
func (g gptq) readScales(p Parts, f *Form, dst *Scales, _ uint64) error {
	if err := readTransposedScales(p, f, dst.Scales); err != nil {
		return err
	}
	groups := f.scaleCols()
	zeros := make([]float32, f.Rows*groups)
	packed, blocks := dequant.Grouped{Code: f.Code, Rows: groups, Cols: f.Rows, RowBytes: 4 * ceilDiv(f.Rows*uint64(f.Code.Bits()), 32)}, uint64(1)
	if g.inBitPlanes { // the zero points of each group are planes of their own
		packed, blocks = dequant.Grouped{Code: f.Code, Pack: layout.PackPlanes, Rows: 1, Cols: f.Rows}, groups
	}
	if err := readPackedZeroPoints(p, packed, blocks, zeros); err != nil {
		return err
	}
	if err := g.correctZeroPoints(zeros, f.Code.Bits()); err != nil {
		return p.Wrap(ZeroPoint, err)
	}
	dst.extendOffsets()
	transpose(dst.Offsets, zeros, groups, f.Rows)
	return g.groupIndex.read(p, f, dst)
}

// correctZeroPoints replaces zeros, stored zero points, by those to subtract from codes of the given number of bits. For
// symmetric codes that is the middle, 2^(bits−1). Programs disagree about whether the middle or one less is stored: it takes
// either, if all are the same, and fails otherwise. For other codes it adds one if the format stores zero points less one. It
// then fails for a stored 2^bits−1, which programs read as 0, as 2^bits, or with a carry.
func (g gptq) correctZeroPoints(zeros []float32, bits int) error {
	middle := float32(uint(1) << (bits - 1))
	for i, z := range zeros {
		switch {
		case g.isSymmetric && (z != zeros[0] || z != middle && z != middle-1):
			return invalidf("zero point %d is %v, and codes of %d bits that are symmetric (the configuration's sym: true, or none) have %v, or %v less one, everywhere", i, z, bits, middle, middle)
		case !g.isSymmetric && g.format.zeroLessOne && z+1 == 2*middle:
			return unsupportedf("zero point %d is stored as %v, whose value programs disagree about if it is less one (checkpoint_format: gptq)", i, z+1)
		}
	}
	for i := range zeros {
		switch {
		case g.isSymmetric:
			zeros[i] = middle
		case g.format.zeroLessOne:
			zeros[i]++
		}
	}
	return nil
}
