package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// awq is AWQ: words that hold nibbles of eight rows (gemm), or of one row (gemv).
type awq struct {
	version string // of the configuration
	packing string // packing_format, of auto-round
	isGemv  bool
}

// awqVersions lists AutoAWQ's versions that are known, and whether each is stored in the order of gemm. Some name the
// kernel that multiplies, not how codes are stored. Source: AutoAWQ 0.2.9 models/_config.py, models/base.py.
var awqVersions = map[string]bool{"": true, "gemm": true, "exllama": true, "exllamav2": true, "ipex": true, "gemv": false}

// names lists how the parts of a weight are named and typed by AWQ's writers.
func (awq) names() []pattern {
	return []pattern{{
		scheme: AWQ, codes: ".qweight", name: ".weight", kinds: words, scales: []string{".scales"}, by: floats, sure: true,
		others: []companion{{".qzeros", ZeroPoint, false}, {".g_idx", GroupIndex, false}},
		fits:   func(c *Config, codes, scale *layout.Tensor) bool { return !packsColumns(c, codes, scale) },
	}}
}

// params reads AutoAWQ's version, and auto-round's packing format.
func (a awq) params(c *Config) (scheme, error) {
	if c.method == "awq" {
		a.version = strings.ToLower(text(c.said, "version"))
	}
	a.packing = strings.ToLower(text(c.said, "packing_format"))
	return a, nil
}

// form tells by the shapes whether a word holds codes of eight rows (gemm) or of eight columns (gemv), and finds the
// form of that. It fails if the shapes are neither.
func (a awq) form(w *weight) (scheme, error) {
	codes, scale, zero, err := w.qweight()
	switch {
	case err != nil:
		return nil, err
	case w.dims(scale)[1] == 8*w.dims(codes)[1]:
		return a, w.awqGemm(a, codes, scale, zero)
	case w.dims(scale)[0] == w.dims(codes)[0]:
		a.isGemv = true
		return a, w.awqGemv(a, codes, scale, zero)
	}
	return nil, misfit("scale %s of shape %v does not fit codes of shape %v", w.name(Scale), w.dims(scale), w.dims(codes))
}

// awqMatrix sets what all weights of AWQ have. It fails if the configuration has another version, packing format or
// number of bits.
func (w *weight) awqMatrix(a awq, shape []uint64) error {
	switch isGemm, known := awqVersions[a.version]; {
	case w.conf.method == "auto-round" && a.packing != "auto_round:auto_awq" && a.packing != "auto_round:awq":
		return misfit("codes of awq, and the configuration's packing_format is %s", layout.Quote([]byte(a.packing)))
	case !known:
		return unsupported("awq of version %s is not decoded", layout.Quote([]byte(a.version)))
	case isGemm == a.isGemv:
		return misfit("codes of awq whose shape is not that of version %s, which the configuration has", cmp.Or(a.version, "gemm (none is said)"))
	}
	if w.bits != 0 && w.bits != 4 {
		return unsupported("awq of %d bits", w.bits)
	}
	w.Code, w.GroupRows, w.scaleType, w.HasOffsets = 4, 1, w.part(Scale).DType, true
	return w.matrix(shape)
}

// awqGemm finds the form of words that hold eight rows of a column. It fails if the zero points do not fit.
func (w *weight) awqGemm(a awq, codes, scale, zero *layout.Tensor) error {
	if !slices.Equal(w.dims(zero), []uint64{w.dims(scale)[0], w.dims(codes)[1]}) {
		return misfit("zero points %s of shape %v do not fit scale %s of shape %v", w.name(ZeroPoint), w.dims(zero), w.name(Scale), w.dims(scale))
	}
	if err := w.awqMatrix(a, []uint64{w.dims(scale)[1], w.dims(codes)[0]}); err != nil {
		return err
	}
	w.Pack = layout.PackAWQ
	return w.columns(w.dims(scale)[0])
}

// awqGemv finds the form of words that hold eight columns of a row. It fails without a group size in the
// configuration, or if scales and zero points do not fit.
func (w *weight) awqGemv(a awq, codes, scale, zero *layout.Tensor) error {
	if w.dims(zero)[0] != w.dims(codes)[0] || w.dims(scale)[1] != 8*w.dims(zero)[1] {
		return misfit("zero points %s of shape %v do not fit scale %s of shape %v", w.name(ZeroPoint), w.dims(zero), w.name(Scale), w.dims(scale))
	}
	if err := w.awqMatrix(a, []uint64{w.dims(codes)[0], 8 * w.dims(codes)[1]}); err != nil {
		return err
	}
	if w.group == 0 && !w.whole {
		return misfit("codes of awq gemv, and the configuration has no group_size")
	}
	w.group = cmp.Or(w.group, w.Cols, 1)
	if w.group < 128 && w.group != 64 && w.group != 32 && w.group < w.Cols {
		return misfit("awq gemv in groups of %d", w.group)
	}
	// Zero points fill whole words, and these come in units that depend on the group.
	unit := uint64(1)
	switch w.group {
	case 64:
		unit = 2
	case 32:
		unit = 4
	}
	want := ceilDiv(ceilDiv(ceilDiv(w.Cols, w.group), 8), unit) * unit
	if w.dims(zero)[1] != want {
		return misfit("zero points %s of %d words a row, not %d, for %d columns in groups of %d", w.name(ZeroPoint), w.dims(zero)[1], want, w.Cols, w.group)
	}
	w.GroupCols, w.ScaleCols, w.RowBytes = w.group, w.dims(scale)[1], 4*w.dims(codes)[1]
	return nil
}

// scales reads scales and zero points. Those of gemm are stored by groups of columns, the zero points packed as the codes.
func (a awq) scales(p Parts, f *Form, dst *Scales, _ uint64) error {
	dst.Offsets = dst.Offsets[:len(dst.Scales)]
	packed := dequant.Grouped{Code: f.Code, Rows: f.Rows, Cols: f.scaleCols()}
	if a.isGemv {
		if err := p.Floats(Scale, f.scaleType, dst.Scales, 0); err != nil {
			return err
		}
		packed.RowBytes = 4 * ceilDiv(f.scaleCols(), 8)
	} else {
		if err := transposedFloats(p, f, dst.Scales); err != nil {
			return err
		}
		packed.Pack = layout.PackAWQ
	}
	return packedFloats(p, ZeroPoint, packed, 1, dst.Offsets)
}
