package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// fp8 is floats of 8 bits with scales in any grid. Sources: transformers (FP8 blocks, DeepSeek-V4), ModelOpt, ComfyUI, FBGEMM.
type fp8 struct {
	floats     string // which floats of 8 bits the configuration names
	groupIndex columnGroups
}

// names lists how the parts of a weight are named and typed by FP8's writers.
func (fp8) names() []pattern {
	return []pattern{
		{scheme: FP8, codes: "", kinds: float8, scales: []string{"_scale_inv", "_scale", "_scales_inv"}, by: floats | e8m0 | u8, others: ofTensors, contents: []Role{QuantState}},
		{scheme: FP8, codes: ".weight", name: ".weight", kinds: float8, scales: []string{".scale", ".qscale_weight", ".scale_weight", ".weights_scaling_factor"}, by: floats | e8m0,
			others: companions(InputScale, ".qscale_act", ".input_scale", ".scale_input", ".activation_scaling_factor")},
	}
}

func (s fp8) params(c *Config) (scheme, error) {
	s.floats = text(c.said, "fmt")
	return s, nil
}

// form finds the grid of scales, zero points and group index of codes of one byte. Scales that are bytes must be
// powers of two by the configuration, in groups of 32.
func (s fp8) form(w *weight) (scheme, error) {
	if err := s.checkType(w); err != nil {
		return nil, err
	}
	scale := w.part(Scale)
	isMicro := scale.DType == layout.U8 && !w.conf.powers[string(scale.Name)]
	if isMicro && !w.microscaled() {
		return nil, unsupported("scale %s of bytes, and no configuration (config.json) that says they are powers of two (format, data_type)", w.name(Scale))
	}
	if scale.DType == layout.U8 {
		w.group = cmp.Or(w.group, 32)
	}
	err := w.byteCodes(layout.CodeE4M3, layout.F8_E4M3)
	if w.part(Codes).DType == layout.F8_E5M2 {
		err = w.byteCodes(layout.CodeE5M2, layout.F8_E5M2)
	}
	if err != nil {
		return nil, err
	}
	if n, _ := elements(w.full); isMicro && n > 0 && w.Cols > 32 && w.GroupCols != 32 {
		return nil, misfit("scale %s of shape %v does not fit shape %v in groups of 32", w.name(Scale), w.dims(scale), w.full)
	}
	if err := w.zeros(); err != nil {
		return nil, err
	}
	s.groupIndex, err = w.index(true) // it may be unset
	w.Ordered = s.groupIndex.size == 0
	return s, err
}

// checkType returns an error if the configuration and the codes disagree about E5M2. Writers of FP8 that say nothing
// have F8_E4M3.
func (s fp8) checkType(w *weight) error {
	says := strings.ToLower(cmp.Or(s.floats, w.format))
	switch codes := w.part(Codes).DType; {
	case codes == layout.F8_E5M2 && w.conf.method != "" && !strings.Contains(says, "e5m2"):
		return misfit("codes %s of F8_E5M2 in a checkpoint of %s, whose configuration does not say so (fmt, data_type)", w.name(Codes), w.conf.method)
	case codes == layout.F8_E4M3 && strings.Contains(says, "e5m2"):
		return misfit("codes %s of F8_E4M3, and the configuration says %s (fmt, data_type)", w.name(Codes), layout.Quote([]byte(says)))
	}
	return nil
}

// microscaled reports whether the configuration says that codes of FP8 have scales of groups of 32, which are powers of two.
func (w *weight) microscaled() bool {
	return w.conf.method == "mxfp8" || slices.ContainsFunc(w.candidates(), func(p params) bool { return strings.HasPrefix(cmp.Or(p.format, w.params.format), "mx") })
}

// byteCodes sets shape, code and grid of codes of one byte. It fails if the codes are not of type d, or the scales
// fit no grid. Blocks are those of the configuration, or 128 × 128 where names tell.
func (w *weight) byteCodes(code layout.Code, d layout.DType) error {
	codes, scale := w.part(Codes), w.part(Scale)
	if codes.DType != d {
		return unsupported("%v codes", codes.DType)
	}
	if w.Code, w.scaleType = code, scale.DType; scale.DType == layout.U8 {
		w.scaleType = layout.F8_E8M0
	}
	if err := w.matrix(w.dims(codes)); err != nil {
		return err
	}
	var blocks [][2]uint64
	for _, p := range append(w.candidates(), w.params) {
		if p.block[0] > 0 && p.block[1] > 0 && !slices.Contains(blocks, p.block) {
			blocks = append(blocks, p.block)
		}
	}
	if blocks == nil && (hasSuffix(scale.Name, "_inv") || hasSuffix(scale.Name, ".scale") || w.strategy == "block" || len(w.dims(scale)) == 4) {
		blocks = [][2]uint64{{128, 128}}
	}
	return w.grid(scale, blocks)
}

// scales reads the scales and the group index.
func (s fp8) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	if err := direct(p, f, dst, from, Codes); err != nil {
		return err
	}
	return s.groupIndex.read(p, f, dst)
}
