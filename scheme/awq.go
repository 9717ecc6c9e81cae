package scheme

import (
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// qweight tells AWQ and GPTQ apart, which name their parts alike: AWQ packs rows of the weight into
// words, GPTQ columns.
func (s *shaping) qweight() error {
	codes, scale, zero := s.part(Codes), s.part(Scale), s.part(ZeroPoint)
	switch {
	case len(s.dims(codes)) != 2 || len(s.dims(scale)) != 2:
		return misfit("codes of shape %v and scale %s of shape %v are no matrices", s.dims(codes), s.name(Scale), s.dims(scale))
	case zero == nil:
		return misfit("codes without zero points (.qzeros)")
	case len(s.dims(zero)) != 2 || zero.DType != layout.I32:
		return misfit("zero points %s of %v %v are no matrix of words", s.name(ZeroPoint), zero.DType, s.dims(zero))
	case s.dims(codes)[1] == s.dims(scale)[1] && (s.dims(codes)[1] > 0 || s.conf.method != "awq"): // both may have none
		return s.gptq(codes, scale, zero)
	case s.dims(scale)[1] == 8*s.dims(codes)[1]:
		return s.awqGemm(codes, scale, zero)
	case s.dims(scale)[0] == s.dims(codes)[0]:
		return s.awqGemv(codes, scale, zero)
	}
	return misfit("scale %s of shape %v does not fit codes of shape %v", s.name(Scale), s.dims(scale), s.dims(codes))
}

// awqVersions lists AutoAWQ's versions that are known, and whether each is stored in the order of gemm. Some name the
// kernel that multiplies, not how codes are stored. Source: AutoAWQ 0.2.9 models/_config.py, models/base.py.
var awqVersions = map[string]bool{"": true, "gemm": true, "exllama": true, "exllamav2": true, "ipex": true, "gemv": false}

// awq finds the form of AWQ's codes, which lie in the order of gemm or in rows.
func (s *shaping) awq(shape []uint64, gemm bool) error {
	w := s.w
	switch stored, known := awqVersions[s.conf.version]; {
	case s.conf.method == "auto-round" && s.conf.gptq.packing != "auto_round:auto_awq" && s.conf.gptq.packing != "auto_round:awq":
		return misfit("codes of awq, and the configuration's packing_format is %s", layout.Quote([]byte(s.conf.gptq.packing)))
	case !known:
		return unsupported("awq of version %s is not decoded", layout.Quote([]byte(s.conf.version)))
	case stored != gemm:
		return misfit("codes of awq whose shape is not that of version %s, which the configuration has", cmp.Or(s.conf.version, "gemm (none is said)"))
	}
	if s.bits != 0 && s.bits != 4 {
		return unsupported("awq of %d bits", s.bits)
	}
	w.Scheme, w.Code, w.GroupRows, w.ScaleType = AWQ, 4, 1, s.part(Scale).DType
	return s.matrix(shape)
}

func (s *shaping) awqGemm(codes, scale, zero *layout.Tensor) (err error) {
	w := s.w
	if !slices.Equal(s.dims(zero), []uint64{s.dims(scale)[0], s.dims(codes)[1]}) {
		return misfit("zero points %s of shape %v do not fit scale %s of shape %v", s.name(ZeroPoint), s.dims(zero), s.name(Scale), s.dims(scale))
	}
	if err := s.awq([]uint64{s.dims(scale)[1], s.dims(codes)[0]}, true); err != nil {
		return err
	}
	w.Pack, w.Scale, w.Zero = layout.PackAWQ, Transposed, PackedAWQ
	return s.columns(s.dims(scale)[0])
}

func (s *shaping) awqGemv(codes, scale, zero *layout.Tensor) error {
	w := s.w
	if s.dims(zero)[0] != s.dims(codes)[0] || s.dims(scale)[1] != 8*s.dims(zero)[1] {
		return misfit("zero points %s of shape %v do not fit scale %s of shape %v", s.name(ZeroPoint), s.dims(zero), s.name(Scale), s.dims(scale))
	}
	if err := s.awq([]uint64{s.dims(codes)[0], 8 * s.dims(codes)[1]}, false); err != nil {
		return err
	}
	if s.group == 0 && !s.whole {
		return misfit("codes of awq gemv, and the configuration has no group_size")
	}
	s.group = cmp.Or(s.group, w.Cols, 1)
	if s.group < 128 && s.group != 64 && s.group != 32 && s.group < w.Cols {
		return misfit("awq gemv in groups of %d", s.group)
	}
	// Zero points fill whole words, and these come in units that depend on the group.
	unit := uint64(1)
	switch s.group {
	case 64:
		unit = 2
	case 32:
		unit = 4
	}
	want := ceilDiv(ceilDiv(ceilDiv(w.Cols, s.group), 8), unit) * unit
	if s.dims(zero)[1] != want {
		return misfit("zero points %s of %d words a row, not %d, for %d columns in groups of %d", s.name(ZeroPoint), s.dims(zero)[1], want, w.Cols, s.group)
	}
	w.Scale, w.Zero, w.GroupCols, w.ScaleCols, w.RowBytes = Direct, PackedRows, s.group, s.dims(scale)[1], 4*s.dims(codes)[1]
	return nil
}

// columns finds the group of columns of a weight whose scales lie transposed.
func (s *shaping) columns(groups uint64) (err error) {
	w := s.w
	if s.whole && groups != 1 && w.Cols > 0 {
		return misfit("scale %s has %d groups, and the configuration wants one", s.name(Scale), groups)
	}
	if groups == 0 && w.Cols == 0 {
		return nil
	}
	w.ScaleCols = groups
	if w.GroupCols, err = s.groupOf(w.Cols, groups); err != nil && s.part(GroupIndex) != nil && groups > 0 && groups <= w.Cols {
		w.GroupCols, w.IgnoreZeroIndex, err = ceilDiv(w.Cols, groups), false, nil // the index tells
	}
	return err
}
