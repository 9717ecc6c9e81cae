package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// The writer decides what GPTQ's parts mean, and the tensors do not tell. Sources: GPTQModel 7.7.0
// (nn_modules/qlinear/__init__.py, utils/planar_packing.py), AutoGPTQ 0.7.1 (quantization/config.py),
// auto-round 0.16.1 (export/export_to_autoround/export.py, inference/backend.py and convert_model.py).

// A gptqFormat says how a format stores zero points, and codes of 5, 6 and 7 bits.
type gptqFormat struct {
	lessOne bool // the stored zero point is less one
	packing wide
}

// wide says how codes of 5, 6 and 7 bits lie, which do not fill words. Codes of 3 bits are dense but in allPlanes.
type wide uint8

const (
	byWriter  wide = iota // as the program does that the configuration names
	inPlanes              // GPTQModel's bit planes
	allPlanes             // its format of planes, which codes of 3 bits have too
	dense                 // one stream of bits, as codes of 3 bits
)

// gptqFormats lists the formats that are known, by the method and the name of the format. checkpoint_format (older:
// format) names it for gptq, packing_format for auto-round. Without a name both mean the first of theirs.
var gptqFormats = map[string]map[string]gptqFormat{
	"gptq": {
		"":        {lessOne: true},
		"gptq":    {lessOne: true},
		"gptq_v2": {},
		"gptq_p":  {packing: allPlanes},
	},
	"auto-round": {
		"":                     {lessOne: true, packing: dense},
		"auto":                 {lessOne: true, packing: dense},
		"auto_round:gptq":      {lessOne: true, packing: dense},
		"auto_round:auto_gptq": {lessOne: true, packing: dense},
		"auto_round":           {packing: dense},
		"auto_round:gptqmodel": {packing: dense},
	},
}

// gptqConfig is what a configuration says of GPTQ's parts.
type gptqConfig struct {
	checkpoint string // checkpoint_format, or format
	packing    string // packing_format, of auto-round
	provider   string // the program that wrote the codes, if it is auto-round
	quantizer  string // meta.quantizer: the program and its release, of GPTQModel
	actOrder   bool   // groups are said not to be consecutive
}

func readGPTQ(q layout.Metadata) (gptqConfig, error) {
	meta, _ := object(q, "meta")
	quantizer := text(meta, "quantizer")
	if list, _ := meta.Get("quantizer"); quantizer == "" {
		if names, ok := layout.As[[]string](list); ok && len(names) > 0 {
			quantizer = names[0]
		}
	}
	act, _ := q.Get("desc_act")
	format, older := strings.ToLower(text(q, "checkpoint_format")), strings.ToLower(text(q, "format"))
	if format != "" && older != "" && format != older { // transformers takes the first, GPTQModel the second
		return gptqConfig{}, misfit("the configuration's checkpoint_format is %s, and its format %s", layout.Quote([]byte(format)), layout.Quote([]byte(older)))
	}
	return gptqConfig{cmp.Or(format, older), strings.ToLower(text(q, "packing_format")), text(q, "provider"), quantizer, act == true}, nil
}

// gptqFormat returns what the configuration says of GPTQ's parts.
func (c *Config) gptqFormat() (f gptqFormat, err error) {
	name, key := c.gptq.checkpoint, "checkpoint_format"
	if c.method == "auto-round" {
		name, key = c.gptq.packing, "packing_format"
	}
	f, ok := gptqFormats[c.method][name]
	switch {
	case c.method == "":
		return f, unsupported("codes of gptq without a configuration: config.json or quantize_config.json beside the file says whether zero points are stored less one (quant_method, checkpoint_format)")
	case !ok:
		return f, unsupported("gptq in the format %s, which is not known (%s)", layout.Quote([]byte(name)), key)
	case f.packing != byWriter:
	case c.gptq.provider == "auto-round":
		f.packing = dense
	case strings.HasPrefix(c.gptq.quantizer, "gptqmodel"):
		f.packing = inPlanes
	}
	return f, nil
}

// gptq finds the form of codes that lie along the columns.
func (s *shaping) gptq(codes, scale, zero *layout.Tensor) error {
	w, out := s.w, s.dims(scale)[1]
	rows, groups := s.dims(codes)[0], s.dims(scale)[0]
	w.Scheme = GPTQ
	format, err := s.conf.gptqFormat()
	if err != nil {
		return err
	}
	in, indexed := uint64(0), s.part(GroupIndex) != nil
	if indexed {
		in = s.elementsOf(GroupIndex)
	}
	if !indexed && groups > 1 && s.conf.gptq.actOrder {
		return misfit("codes without the group index (.g_idx) that the configuration speaks of (desc_act)")
	}
	var fits []uint64
	for b := uint64(2); b <= 8; b++ {
		if s.dims(zero)[1] == ceilDiv(out*b, 32) && s.dims(zero)[0] == groups && (indexed && rows == ceilDiv(in*b, 32) || !indexed && rows*32%b == 0) {
			fits = append(fits, b)
		}
	}
	b := s.bits
	switch {
	case len(fits) == 0:
		return misfit("codes of shape %v, zero points of shape %v, scales of shape %v and %d columns in %s do not fit", s.dims(codes), s.dims(zero), s.dims(scale), in, s.name(GroupIndex))
	case b != 0 && !slices.Contains(fits, b):
		return misfit("codes %s have %d bits, and %d by the configuration", s.name(Codes), fits[0], b)
	case b == 0 && len(fits) > 1:
		return misfit("codes %s may have any of %v bits, and the configuration has no bits", s.name(Codes), fits)
	case b == 0:
		b = fits[0]
	}
	if !indexed {
		if in = rows * 32 / b; in%32 != 0 {
			return misfit("%d rows of codes of %d bits without a group index (.g_idx) do not tell how many of %d columns there are", rows, b, in)
		}
	}
	if err := s.matrix([]uint64{out, in}); err != nil {
		return err
	}
	w.Code, w.GroupRows, w.ScaleType = layout.Code(b), 1, scale.DType
	w.Pack, w.Scale, w.Zero, w.IgnoreZeroIndex = layout.PackGPTQ, Transposed, PackedGPTQ, !s.conf.gptq.actOrder
	w.OneMore, w.Symmetric = format.lessOne, s.symmetric != no // which all three writers take for yes if it is unsaid
	isWide := b >= 5 && b <= 7
	if isWide && format.packing == byWriter {
		return unsupported("gptq of %d bits by an unknown program, which may be bit planes or one stream (the configuration has neither meta.quantizer nor provider)", b)
	}
	if isWide && format.packing == inPlanes || 32%b != 0 && format.packing == allPlanes { // the others have one plane
		if out%32 != 0 || in%32 != 0 {
			return misfit("bit planes of %d rows and %d columns, no multiples of 32", out, in)
		}
		w.Pack, w.Zero, w.OneMore = layout.PackPlanes, PackedPlanes, false
	}
	if err := s.index(); err != nil {
		return err
	}
	return s.columns(groups)
}
