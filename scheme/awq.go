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
	codesEnd: ".qweight", codesTypes: i32, scaleEnds: []string{".scales"}, scaleTypes: floats, nameTellsScheme: true, companions: qweightCompanions, required: []Role{ZeroPoint}, acceptsShapes: packsRows,
}}}

// awqVersions lists AutoAWQ's versions that are known, with true for versions that are stored in the order of gemm. Some name the
// kernel that multiplies, not how codes are stored. Source: AutoAWQ 0.2.9 models/_config.py, models/base.py.
var awqVersions = map[string]bool{"": true, "gemm": true, "exllama": true, "exllamav2": true, "ipex": true, "gemv": false}

// setAWQ sets the form of codes of 4 bits, eight to a word of 32 bits. In the order of gemm, a word has the codes of eight
// rows (outputs) in one column (input). In gemv, a word has eight columns of one row. The parts have these shapes:
//   - gemm: codes of [in, out/8], scales of [groups, out], zero points of [groups, out/8].
//   - gemv: codes of [out, in/8], scales of [out, 8 · words], zero points of [out, words].
//
// In gemv, a row has its own words of zero points, eight zero points to a word. words is their number, which setGemvGroups
// checks. A row has one scale for each zero point, padding included. setAWQ fails if the shapes are neither gemm's nor
// gemv's. It also fails if the configuration contradicts them, or if the group size is missing or does not fit.
func (w *weight) setAWQ() error {
	codes, scale, zero, err := w.qweightParts()
	if err != nil {
		return err
	}
	isGemm := scale[1] == 8*codes[1]
	out, in := scale[1], codes[0]
	zeroFits := slices.Equal(zero, []uint64{scale[0], codes[1]})
	if !isGemm {
		out, in = codes[0], 8*codes[1]
		zeroFits = zero[0] == out && scale[1] == 8*zero[1]
	}
	switch {
	case !isGemm && scale[0] != out:
		return invalidf("scale %s of shape %v does not fit codes of shape %v", w.quotedName(Scale), scale, codes)
	case !zeroFits:
		return invalidf("zero points %s of shape %v do not fit scale %s of shape %v", w.quotedName(ZeroPoint), zero, w.quotedName(Scale), scale)
	}
	if err := cmp.Or(w.checkAWQVersion(isGemm), w.setMatrix([]uint64{out, in})); err != nil {
		return err
	}
	w.Code, w.GroupRows, w.HasOffsets, w.reader = layout.Code(4), 1, true, awqScales{}
	if isGemm {
		w.Pack = layout.PackAWQ
		return w.setGroupCols(scale[0])
	}
	w.RowBytes, w.ScaleCols = 4*codes[1], scale[1]
	return w.setGemvGroups(zero[1])
}

// checkAWQVersion compares the codes with the configuration. isGemm says that their shape is gemm's. It returns an error if
// the configuration has other bits than 4, or if the packing_format of auto-round is not AWQ's. It also returns an error if
// the version is unknown, or stores codes in the other order. A missing version means gemm.
func (w *weight) checkAWQVersion(isGemm bool) error {
	version, format := "", strings.ToLower(w.config.text("packing_format"))
	if w.config.quantMethod == "awq" {
		version = strings.ToLower(w.config.text("version"))
	}
	wantsGemm, isKnown := awqVersions[version]
	switch {
	case w.config.quantMethod == "auto-round" && format != "auto_round:auto_awq" && format != "auto_round:awq":
		return invalidf("codes of awq, and the configuration's packing_format is %s", layout.Quote(format))
	case !isKnown:
		return unsupportedf("awq of version %s is not decoded", layout.Quote(version))
	case wantsGemm != isGemm:
		return invalidf("codes of awq whose shape is not the shape of version %s, which the configuration has", cmp.Or(version, "gemm (none is said)"))
	case w.bits != 0 && w.bits != 4:
		return unsupportedf("awq of %d bits", w.bits)
	}
	return nil
}

// setGemvGroups sets w.GroupCols to the configuration's group size, or to all columns if a group is a row. words is the
// number of words that the zero points of a row take. It fails without a group size, and for a size other than 32, 64, and
// 128 or more. A size that covers a whole row is no error. It also fails if words is not what gemvZeroWords returns.
func (w *weight) setGemvGroups(words uint64) error {
	if w.groupSize == 0 && !w.groupIsRow {
		return invalidf("codes of awq gemv, and the configuration has no group_size")
	}
	w.GroupCols = cmp.Or(w.groupSize, w.Cols, 1)
	if isUsual := w.GroupCols >= 128 || w.GroupCols == 64 || w.GroupCols == 32; !isUsual && w.GroupCols < w.Cols {
		return invalidf("awq gemv in groups of %d", w.GroupCols)
	}
	if want := gemvZeroWords(w.Cols, w.GroupCols); words != want {
		return invalidf("zero points %s of %d words a row, not %d, for %d columns in groups of %d", w.quotedName(ZeroPoint), words, want, w.Cols, w.GroupCols)
	}
	return nil
}

// gemvZeroWords returns how many words of eight zero points gemv stores for a row of cols columns. It rounds the number up to a multiple
// of 2 for groups of 64 columns, and of 4 for groups of 32. It does not round for other groups. Source: AutoAWQ 0.2.9
// modules/linear/gemv.py, calculate_zeros_width.
func gemvZeroWords(cols, groupSize uint64) uint64 {
	multiple := max(1, map[uint64]uint64{64: 2, 32: 4}[groupSize])
	words := ceilDiv(ceilDiv(cols, groupSize), 8)
	return ceilDiv(words, multiple) * multiple
}

// awqScales have zero points that are packed like the codes.
type awqScales struct{}

// readScales reads all scales and zero points. Gemm stores both by groups: the first group of all rows, then the second
// group. readScales transposes the scales of gemm. The zero points of gemm need no such step: PackAWQ reads a word as eight
// rows. Gemv stores both row by row. It fails if reading does.
func (awqScales) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, _ uint64) error {
	packed := dequant.Grouped{Code: f.Code, Pack: f.Pack, Rows: f.Rows, Cols: f.scaleCols()}
	var err error
	if f.Pack == layout.PackAWQ {
		err = readTransposedScales(ctx, p, f, dst.Scales)
	} else {
		packed.RowBytes = 4 * ceilDiv(f.scaleCols(), 8)
		err = p.Floats(ctx, Scale, f.scaleType, dst.Scales, 0)
	}
	if err != nil {
		return err
	}
	return readPackedZeroPoints(ctx, p, packed, 1, dst.Offsets)
}
