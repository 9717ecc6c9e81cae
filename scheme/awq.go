package scheme

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// awq is AWQ: words that hold nibbles of eight rows (gemm), or of one row (gemv).
var awq = scheme{AWQ, (*weight).setAWQ, []pattern{{
	codesEnd: ".qweight", codesTypes: i32, scaleEnds: []string{".scales"}, scaleTypes: floats, nameDecides: true, companions: qweightCompanions, required: []Role{ZeroPoint}, acceptsShapes: packsRows,
}}}

// awqVersions lists AutoAWQ's versions that are known, with true for those that are stored in the order of gemm. Some name the
// kernel that multiplies, not how codes are stored. Source: AutoAWQ 0.2.9 models/_config.py, models/base.py.
var awqVersions = map[string]bool{"": true, "gemm": true, "exllama": true, "exllamav2": true, "ipex": true, "gemv": false}

// setAWQ tells by the shapes whether a word holds codes of eight rows (gemm) or of eight columns (gemv), and sets the form
// accordingly. It fails if the shapes are neither, or if qweightParts, setAWQGemm or setAWQGemv does.
func (w *weight) setAWQ() error {
	codes, scale, zero, err := w.qweightParts()
	switch {
	case err != nil:
		return err
	case w.dims(scale)[1] == 8*w.dims(codes)[1]:
		return w.setAWQGemm(codes, scale, zero)
	case w.dims(scale)[0] == w.dims(codes)[0]:
		return w.setAWQGemv(codes, scale, zero)
	}
	return invalidf("scale %s of shape %v does not fit codes of shape %v", w.quotedName(Scale), w.dims(scale), w.dims(codes))
}

// setAWQShape sets the shape, and what gemm and gemv have in common: codes of 4 bits, types, zero points, and groups of one row. It
// fails if the configuration has other bits, another packing format, or a version that is unknown or stores the other order.
func (w *weight) setAWQShape(isGemm bool, shape []uint64) error {
	version, format := "", strings.ToLower(w.config.names["packing_format"])
	if w.config.quantMethod == "awq" {
		version = strings.ToLower(w.config.names["version"])
	}
	if w.config.quantMethod == "auto-round" && format != "auto_round:auto_awq" && format != "auto_round:awq" {
		return invalidf("codes of awq, and the configuration's packing_format is %s", layout.Quote(format))
	}
	switch wantsGemm, isKnown := awqVersions[version]; {
	case !isKnown:
		return unsupportedf("awq of version %s is not decoded", layout.Quote(version))
	case wantsGemm != isGemm:
		return invalidf("codes of awq whose shape is not that of version %s, which the configuration has", cmp.Or(version, "gemm (none is said)"))
	}
	if w.bits != 0 && w.bits != 4 {
		return unsupportedf("awq of %d bits", w.bits)
	}
	w.Code, w.GroupRows, w.scaleType, w.HasOffsets = layout.Code(4), 1, w.part(Scale).DType, true
	w.reader = awqScales{}
	return w.setMatrix(shape)
}

// setAWQGemm sets the form of codes in the order of AutoAWQ's version gemm. A word of 32 bits has the codes of eight outputs, for one input.
// codes are [in, out/8], scales [groups, out] and zero points [groups, out/8]. It fails if the zero points have another shape, or if
// setAWQShape or setGroupCols does.
func (w *weight) setAWQGemm(codes, scale, zero *layout.Tensor) error {
	if !slices.Equal(w.dims(zero), []uint64{w.dims(scale)[0], w.dims(codes)[1]}) {
		return invalidf("zero points %s of shape %v do not fit scale %s of shape %v", w.quotedName(ZeroPoint), w.dims(zero), w.quotedName(Scale), w.dims(scale))
	}
	if err := w.setAWQShape(true, []uint64{w.dims(scale)[1], w.dims(codes)[0]}); err != nil {
		return err
	}
	w.Pack = layout.PackAWQ
	return w.setGroupCols(w.dims(scale)[0])
}

// setAWQGemv sets the form of codes whose words hold eight columns of a row. codes are [out, in/8], zero points [out, words]
// and scales [out, 8 · words]. It fails if the parts have other shapes, or if setAWQShape fails. It also fails unless the
// configuration has a group size of gemv: 32, 64, 128 or more, or all columns.
func (w *weight) setAWQGemv(codes, scale, zero *layout.Tensor) error {
	if w.dims(zero)[0] != w.dims(codes)[0] || w.dims(scale)[1] != 8*w.dims(zero)[1] {
		return invalidf("zero points %s of shape %v do not fit scale %s of shape %v", w.quotedName(ZeroPoint), w.dims(zero), w.quotedName(Scale), w.dims(scale))
	}
	if err := w.setAWQShape(false, []uint64{w.dims(codes)[0], 8 * w.dims(codes)[1]}); err != nil {
		return err
	}
	if w.groupSize == 0 && !w.groupIsRow {
		return invalidf("codes of awq gemv, and the configuration has no group_size")
	}
	w.groupSize = cmp.Or(w.groupSize, w.Cols, 1)
	if isUsual := w.groupSize >= 128 || w.groupSize == 64 || w.groupSize == 32; !isUsual && w.groupSize < w.Cols {
		return invalidf("awq gemv in groups of %d", w.groupSize)
	}
	if words := gemvZeroWords(w.Cols, w.groupSize); w.dims(zero)[1] != words {
		return invalidf("zero points %s of %d words a row, not %d, for %d columns in groups of %d", w.quotedName(ZeroPoint), w.dims(zero)[1], words, w.Cols, w.groupSize)
	}
	w.GroupCols, w.ScaleCols, w.RowBytes = w.groupSize, w.dims(scale)[1], 4*w.dims(codes)[1]
	return nil
}

// gemvZeroWords returns how many words of eight zero points gemv stores for a row. It fills up units: of one word for
// groups of 128 and more, of two for 64, and of four for 32. Source: AutoAWQ 0.2.9 modules/linear/gemv.py, calculate_zeros_width.
func gemvZeroWords(cols, groupSize uint64) uint64 {
	unit := uint64(1)
	switch groupSize {
	case 64:
		unit = 2
	case 32:
		unit = 4
	}
	words := ceilDiv(ceilDiv(cols, groupSize), 8)
	return ceilDiv(words, unit) * unit
}

// awqScales have zero points that are packed like the codes.
type awqScales struct{}

// readScales reads all scales and zero points to dst. from is always 0. The variant
// gemm stores both in this order: the first group of all rows, then the second. readScales transposes its scales. To transpose its
// zero points, it reads their words as PackAWQ. It fails if reading does.
func (awqScales) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, _ uint64) error {
	dst.extendOffsets()
	packed := dequant.Grouped{Code: f.Code, Pack: f.Pack, Rows: f.Rows, Cols: f.scaleCols()}
	if f.Pack == layout.PackAWQ {
		if err := readTransposedScales(ctx, p, f, dst.Scales); err != nil {
			return err
		}
	} else {
		if err := p.Floats(ctx, Scale, f.scaleType, dst.Scales, 0); err != nil {
			return err
		}
		packed.RowBytes = 4 * ceilDiv(f.scaleCols(), 8)
	}
	return readPackedZeroPoints(ctx, p, packed, 1, dst.Offsets)
}
