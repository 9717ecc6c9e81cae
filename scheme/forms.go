package scheme

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// shaping finds the shape and the form of one weight.
type shaping struct {
	*Table
	w *Weight
	evidence
	full  []uint64 // the weight's shape
	sizes []uint64 // memory for shapes
	used  uint16   // a bit for each role of parts that were asked for
	params
}

// run finds shape and form by the convention, and checks that sizes fit 64 bits.
func (s *shaping) run() error {
	for _, p := range s.w.Parts {
		for _, n := range s.tensors[p.Tensor].Shape {
			if uint64(n) > mostDim {
				return misfit("tensor %s has a dimension of %d", s.name(p.Role), n)
			}
		}
	}
	s.w.Form = &Form{Scheme: s.c.scheme}
	if err := s.takeDescription(); err != nil {
		return err
	}
	if err := s.c.form(s); err != nil {
		return err
	}
	if err := s.recognize(); err != nil {
		return err
	}
	for _, p := range s.w.Parts {
		if !slices.Contains(s.full, 0) && s.used>>p.Role&1 == 0 && p.Role != InputScale && p.Role != Setting {
			return misfit("%v %s beside codes of %s, which have none", p.Role, s.name(p.Role), s.w.Scheme)
		}
	}
	if n, ok := elements(s.full); !ok || n > 1<<60 {
		return misfit("shape %v has too many elements", s.full)
	}
	if err := s.source.Decodable(s.w.Form); err != nil {
		return err
	}
	codes := s.part(Codes)
	if slices.Equal(s.full, s.dims(codes)) {
		s.w.Shape = codes.Shape
		return nil
	}
	s.w.Shape = make([]int, 0, len(s.full))
	for _, n := range s.full {
		if n > math.MaxInt {
			return misfit("shape %v does not fit this machine", s.full)
		}
		s.w.Shape = append(s.w.Shape, int(n))
	}
	return nil
}

// dims returns the shape of a tensor, for arithmetic in 64 bits.
func (s *shaping) dims(t *layout.Tensor) []uint64 {
	from := len(s.sizes)
	for _, n := range t.Shape {
		s.sizes = append(s.sizes, uint64(n))
	}
	return s.sizes[from:len(s.sizes):len(s.sizes)]
}

// elements returns the product of a shape. ok is false if it does not fit 64 bits.
func elements(shape []uint64) (n uint64, ok bool) {
	if slices.Contains(shape, 0) {
		return 0, true
	}
	n, ok = 1, true
	for _, dim := range shape {
		hi, lo := bits.Mul64(n, dim)
		n, ok = lo, ok && hi == 0
	}
	return n, ok
}

// mostDim bounds the dimensions of parts, so that a few of them may be multiplied.
const mostDim = 1 << 48

// part returns the tensor that has a role, or nil.
func (s *shaping) part(r Role) *layout.Tensor {
	s.used |= 1 << r
	if i, ok := s.w.Part(r); ok {
		return &s.tensors[i]
	}
	return nil
}

func (s *shaping) name(r Role) string {
	if t := s.part(r); t != nil {
		return layout.Quote(t.Name)
	}
	return "no " + r.String()
}

// content returns the bytes of the part of a role that was asked for, or nil.
func (s *shaping) content(r Role) []byte {
	i, _ := s.w.Part(r)
	return s.contentOf(i)
}

// contentOf returns the bytes of a tensor that was asked for, or nil.
func (s *shaping) contentOf(tensor uint32) []byte {
	i := 0
	for _, p := range s.w.Parts {
		switch {
		case !s.c.wants(p):
		case p.Tensor == tensor:
			return s.contents[i]
		default:
			i++
		}
	}
	return nil
}

// matrix sets the shape, of at least one dimension, and the size of one matrix.
func (s *shaping) matrix(shape []uint64) error {
	if len(shape) == 0 {
		return misfit("codes %s are a scalar", s.name(Codes))
	}
	w := s.w
	s.full = shape
	w.Rows, w.Cols = 1, shape[len(shape)-1]
	if len(shape) > 1 {
		w.Rows = shape[len(shape)-2]
	}
	return nil
}

// outer returns the dimensions of shape before those of one matrix.
func outer(shape []uint64) []uint64 { return shape[:max(len(shape)-2, 0)] }

// widened returns shape with its last dimension replaced.
func widened(shape []uint64, last uint64) []uint64 {
	shape = slices.Clone(shape)
	shape[len(shape)-1] = last
	return shape
}

func ceilDiv(a, b uint64) uint64 {
	if b == 0 {
		return 0
	}
	return a/b + min(a%b, 1)
}

// scales finds which elements share a scale, from the shape of the scales. Blocks are tried first.
func (s *shaping) scales(t *layout.Tensor, blocks [][2]uint64) error {
	w, shape := s.w, s.dims(t)
	n, _ := elements(shape)
	lead := outer(s.full)
	all, _ := elements(s.full)
	matrices, _ := elements(lead)
	if len(shape) == 4 && len(s.full) == 2 && shape[1] == 1 && shape[3] == 1 {
		shape = []uint64{shape[0], shape[2]} // of ModelOpt's FP8_PB_WO
	}
	w.Scale = Direct
	switch {
	case all == 0:
		return nil
	case len(lead) > 0 && s.conf.method == "fbgemm_fp8":
		return s.columnScales(shape)
	case n == 1 && (matrices > 1 || len(shape) < 2 || len(blocks) == 0):
		rows, _ := elements(s.full[:len(s.full)-1])
		w.Rows, w.GroupRows, w.GroupCols = rows, 0, 0
		return nil
	case len(lead) > 0 && slices.Equal(shape, lead): // one for each matrix
		return nil
	case slices.Equal(shape, s.full[:len(s.full)-1]): // one for each row
		w.GroupRows = 1
		return nil
	case len(shape) != len(s.full) || len(shape) < 2 || !slices.Equal(outer(shape), lead):
		return misfit("scale %s of shape %v does not fit shape %v", s.name(Scale), s.dims(t), s.full)
	}
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	for _, b := range blocks {
		if rows == ceilDiv(w.Rows, b[0]) && cols == ceilDiv(w.Cols, b[1]) {
			w.GroupRows, w.GroupCols = b[0], b[1]
			return nil
		}
	}
	switch {
	case rows == 1 && cols == 1 && len(blocks) == 0 && (w.Rows != 1 || s.group == 0):
		return nil
	case rows != w.Rows || cols == 0 || s.block[0] > 0:
		return misfit("scale %s of shape %v does not fit shape %v in blocks of %v", s.name(Scale), s.dims(t), s.full, blocks)
	}
	w.GroupRows = 1
	g, err := s.groupOf(w.Cols, cols)
	w.GroupCols = g
	return err
}

// columnScales finds the scales of FBGEMM's experts, which are stored as [experts, in, out]: one for each column,
// whichever of the last dimensions they lie along.
func (s *shaping) columnScales(shape []uint64) error {
	w := s.w
	one, cols := slices.Clone(s.full), widened(s.full, 1)
	one[len(one)-2], cols[len(cols)-2] = 1, w.Cols
	if !slices.Equal(shape, one) && !slices.Equal(shape, cols) {
		return misfit("scale %s of shape %v does not fit the columns of shape %v", s.name(Scale), shape, s.full)
	}
	w.GroupRows, w.GroupCols = 0, 1
	return nil
}

// candidates returns the parameters that the layer may have: those of the groups that name it, or else of
// all.
func (s *shaping) candidates() []params {
	if len(s.conf.groups) == 0 {
		return []params{s.params}
	}
	if named := s.conf.ask(s.layer).named; len(named) > 0 {
		return slices.Clip(named)
	}
	return slices.Clip(s.conf.all)
}

// groupOf returns how many of so many columns a group has, 0 for all. It refuses to guess if several sizes fit.
func (s *shaping) groupOf(cols, groups uint64) (size uint64, err error) {
	said, whole := false, strings.HasPrefix(s.conf.method, "modelopt")   // whose group size is not that of FP8
	ragged := s.w.Scheme != AWQ && s.conf.method != "compressed-tensors" // their writers refuse columns that are not whole groups
	fits := func(n uint64) {
		if size != 0 && size != n && groups > 1 {
			err = misfit("%d columns and %d groups of scale %s fit groups of %d and of %d", cols, groups, s.name(Scale), size, n)
		}
		size = cmp.Or(size, n)
	}
	for _, p := range s.candidates() {
		if p.whole || p.strategy == "channel" {
			said, whole = true, true
		}
		if p.group != 0 {
			said = true
			if ceilDiv(cols, p.group) == groups && (cols%p.group == 0 || groups == 1 || ragged) {
				fits(p.group)
			}
		}
	}
	switch {
	case size != 0:
		return size, err
	case groups == 1 && (whole || !said):
		return 0, nil
	case said:
		return 0, misfit("%d columns are not the %d groups of scale %s with the configuration's group size", cols, groups, s.name(Scale))
	}
	if groups > 0 && cols%groups == 0 && cols/groups >= 8 && (bits.OnesCount64(cols/groups) == 1 || ceilDiv(cols, 128) == groups) {
		fits(cols / groups)
	}
	if ceilDiv(cols, 128) == groups {
		fits(128)
	}
	if size == 0 {
		err = misfit("%d columns do not divide into the %d groups of scale %s, and no configuration has the group size", cols, groups, s.name(Scale))
	}
	return size, err
}

// sameGrid checks that a part has an entry for each scale, in the same shape.
func (s *shaping) sameGrid(r Role) error {
	if !slices.Equal(s.dims(s.part(r)), s.dims(s.part(Scale))) {
		return misfit("%s %s of shape %v does not fit the scale's, %v", r, s.name(r), s.dims(s.part(r)), s.dims(s.part(Scale)))
	}
	return nil
}

// index checks the group index, if there is one.
func (s *shaping) index() error {
	t := s.part(GroupIndex)
	if t == nil {
		if s.w.GroupCols != 0 && s.conf.old && slices.ContainsFunc(s.candidates(), func(p params) bool { return p.indexed }) {
			return misfit("codes without the group index that the configuration speaks of (actorder)")
		}
		return nil
	}
	if s.elementsOf(GroupIndex) != s.w.Cols || len(outer(s.full)) > 0 || (t.DType != layout.I32 && t.DType != layout.I64) {
		return misfit("group index %s of %v %v does not fit %d columns", s.name(GroupIndex), t.DType, s.dims(t), s.w.Cols)
	}
	s.w.UnsetIndex = s.w.Scheme != GPTQ
	return nil
}

// asymmetry checks that there are zero points if the configuration says so. compressed-tensors says so whenever there are;
// programs disagree about others.
func (s *shaping) asymmetry() error {
	some, all := false, true
	for _, p := range s.candidates() {
		some, all = some || p.asymmetric, all && p.asymmetric
	}
	switch there := s.part(ZeroPoint) != nil; {
	case all && !there:
		return misfit("codes without the zero points that the configuration speaks of (symmetric: false)")
	case there && !some && s.conf.method == "compressed-tensors":
		return misfit("zero points %s, and by the configuration there are none (symmetric)", s.name(ZeroPoint))
	}
	return nil
}

// zeros finds how the zero points of unpacked codes are stored.
func (s *shaping) zeros() error {
	t := s.part(ZeroPoint)
	if err := s.asymmetry(); err != nil || t == nil {
		return err
	}
	if codes := s.part(Codes).DType; t.DType != codes && t.DType != layout.I8 || codes.Kind() != layout.KindInt {
		return unsupported("zero points %s of type %v beside codes of type %v", s.name(ZeroPoint), t.DType, codes)
	}
	s.w.Zero = Direct
	return s.sameGrid(ZeroPoint)
}

// byteCodes are the codes of one byte, by the type of their tensor.
var byteCodes = map[layout.DType]layout.Code{layout.F8_E4M3: layout.CodeE4M3, layout.F8_E5M2: layout.CodeE5M2, layout.I8: layout.CodeInt8}

// bytes finds the form of codes of one byte, with scales that lie in any grid.
func (s *shaping) bytes() error {
	scale := s.part(Scale)
	w := s.w
	if w.Code, w.ScaleType = byteCodes[s.part(Codes).DType], scale.DType; w.Code == 0 {
		return unsupported("%v codes", s.part(Codes).DType)
	}
	if scale.DType == layout.U8 {
		w.ScaleType = layout.F8_E8M0
	}
	if err := s.floatType(); err != nil {
		return err
	}
	if err := s.matrix(s.dims(s.part(Codes))); err != nil {
		return err
	}
	var blocks [][2]uint64
	for _, p := range append(s.candidates(), s.params) {
		if p.block[0] > 0 && p.block[1] > 0 && !slices.Contains(blocks, p.block) {
			blocks = append(blocks, p.block)
		}
	}
	if blocks == nil && (hasSuffix(scale.Name, "_inv") || hasSuffix(scale.Name, ".scale") || s.strategy == "block" || len(s.dims(scale)) == 4) {
		blocks = [][2]uint64{{128, 128}}
	}
	micro := scale.DType == layout.U8 && !s.conf.powers[string(scale.Name)]
	if micro && !s.microscaled() {
		return unsupported("scale %s of bytes, and no configuration (config.json) that says they are powers of two (format, data_type)", s.name(Scale))
	}
	if w.ScaleType == layout.F8_E8M0 && s.group == 0 && scale.DType == layout.U8 {
		s.group = 32
	}
	if err := s.scales(scale, blocks); err != nil {
		return err
	}
	if n, _ := elements(s.full); micro && n > 0 && w.Cols > 32 && w.GroupCols != 32 {
		return misfit("scale %s of shape %v does not fit shape %v in groups of 32", s.name(Scale), s.dims(scale), s.full)
	}
	if err := s.zeros(); err != nil {
		return err
	}
	return s.index()
}

// floatType checks codes of F8_E5M2. Writers of FP8 that say nothing else have F8_E4M3.
func (s *shaping) floatType() error {
	says := strings.ToLower(cmp.Or(text(s.conf.said, "fmt"), s.format))
	if s.w.Code == layout.CodeE5M2 && s.conf.method != "" && !strings.Contains(says, "e5m2") {
		return misfit("codes %s of F8_E5M2 in a checkpoint of %s, whose configuration does not say so (fmt, data_type)", s.name(Codes), s.conf.method)
	}
	if s.w.Code == layout.CodeE4M3 && strings.Contains(says, "e5m2") {
		return misfit("codes %s of F8_E4M3, and the configuration says %s (fmt, data_type)", s.name(Codes), layout.Quote([]byte(says)))
	}
	return nil
}

// microscaled reports whether the configuration says that codes of FP8 have scales of groups of 32, which are powers of two.
func (s *shaping) microscaled() bool {
	return s.conf.method == "mxfp8" || slices.ContainsFunc(s.candidates(), func(p params) bool { return strings.HasPrefix(cmp.Or(p.format, s.params.format), "mx") })
}

func (s *shaping) bnbInt8() error {
	w, codes, scale := s.w, s.part(Codes), s.part(Scale)
	if err := s.matrix(s.dims(codes)); err != nil {
		return err
	}
	if len(s.dims(codes)) != 2 || s.elementsOf(Scale) != w.Rows {
		return misfit("SCB %s of shape %v does not fit codes of shape %v", s.name(Scale), s.dims(scale), s.dims(codes))
	}
	if f := s.part(Layout); f != nil && f.Raw > 8 {
		return misfit("format %s of %d bytes", s.name(Layout), f.Raw)
	}
	w.Code, w.ScaleType, w.Scale, w.GroupRows = layout.CodeInt8By127, scale.DType, Direct, 1
	return nil
}

// nibbles finds the form of E2M1 codes in bytes, and checks that every group has a scale. rows is the
// shape of the codes.
func (s *shaping) nibbles(code layout.Code, shape []uint64, group uint64, scaleType layout.DType) error {
	w, scale := s.w, s.part(Scale)
	if scale == nil {
		return misfit("codes without a scale of groups")
	}
	if len(shape) == 0 {
		return misfit("codes %s are a scalar", s.name(Codes))
	}
	if err := s.matrix(widened(shape, 2*shape[len(shape)-1])); err != nil {
		return err
	}
	if !slices.Equal(s.dims(scale), widened(s.full, ceilDiv(w.Cols, group))) {
		return misfit("scale %s of shape %v does not fit shape %v in groups of %d", s.name(Scale), s.dims(scale), s.full, group)
	}
	if scale.DType != scaleType && scale.DType != layout.U8 {
		return misfit("scale %s of type %v, not %v", s.name(Scale), scale.DType, scaleType)
	}
	w.Code, w.Scale, w.ScaleType, w.GroupRows, w.GroupCols = code, Direct, scaleType, 1, group
	return nil
}

// onePerMatrix reports whether a part has one element, or one for each matrix.
func (s *shaping) onePerMatrix(r Role) bool {
	matrices, _ := elements(outer(s.full))
	return s.elementsOf(r) == 1 || s.elementsOf(r) == matrices
}

// global checks the scale of scales: one, or one for each matrix.
func (s *shaping) global(g Global) error {
	t := s.part(GlobalScale)
	if t == nil {
		return misfit("codes without a global scale")
	}
	if !s.onePerMatrix(GlobalScale) || t.DType.Kind() != layout.KindFloat {
		return misfit("global scale %s of %v %v does not fit shape %v", s.name(GlobalScale), t.DType, s.dims(t), s.full)
	}
	s.w.Global = g
	return nil
}

func (s *shaping) nvfp4Packed() error { return s.nvfp4(layout.CodeE2M1, Divides) }

func (s *shaping) nvfp4ModelOpt() error { return s.nvfp4(layout.CodeE2M1Plus, Multiplies) }

func (s *shaping) nvfp4(code layout.Code, g Global) error {
	if err := s.pairs(code, 16, layout.F8_E4M3); err != nil {
		return err
	}
	return s.global(g)
}

// nvfp4Alone finds the form of F4 with scales that are floats of 8 bits, and no scale of these.
func (s *shaping) nvfp4Alone() error {
	if s.part(GlobalScale) != nil {
		return unsupported("F4 with the scale %s and the scale %s of scales", s.name(Scale), s.name(GlobalScale))
	}
	return s.pairs(layout.CodeE2M1, 16, layout.F8_E4M3)
}

// pairs finds what nibbles does, by the shape of the tensor of codes. F4 counts its codes, other types count bytes.
func (s *shaping) pairs(code layout.Code, group uint64, scaleType layout.DType) error {
	codes := s.part(Codes)
	shape := s.dims(codes)
	if n := len(shape) - 1; codes.DType == layout.F4 && n >= 0 {
		if shape[n]%2 != 0 {
			return misfit("codes %s with rows of %d, which fill no bytes", s.name(Codes), shape[n])
		}
		shape[n] /= 2
	}
	return s.nibbles(code, shape, group, scaleType)
}

func (s *shaping) nvfp4GGUF() error {
	codes, scale := s.part(Codes), s.part(Scale)
	w := s.w
	if err := s.matrix(s.dims(codes)); err != nil {
		return err
	}
	if !s.onePerMatrix(Scale) {
		return misfit("scale %s of shape %v does not fit shape %v", s.name(Scale), s.dims(scale), s.full)
	}
	if s.elementsOf(Scale) == 1 {
		w.Rows, _ = elements(s.full[:len(s.full)-1])
	}
	w.Code, w.Scale, w.ScaleType = layout.CodeBlocks, Direct, scale.DType
	return nil
}

// mxfp4Packed finds the form of codes whose parts MXINT4 of auto-round has too: the configuration tells them apart.
func (s *shaping) mxfp4Packed() error {
	if s.c.codes == "_packed" && s.part(Codes).DType != layout.F4 && details[s.conf.method].schemes == nil {
		return unsupported("codes of mxfp4 or mxint4, and no configuration (config.json) that tells (format, data_type)")
	}
	return s.pairs(layout.CodeE2M1, 32, layout.F8_E8M0)
}

func (s *shaping) mxfp4Blocks() error {
	shape := s.dims(s.part(Codes))
	if len(shape) < 2 || shape[len(shape)-1] != 16 {
		return misfit("blocks %s of shape %v, not of 16 bytes", s.name(Codes), shape)
	}
	shape = shape[:len(shape)-1]
	return s.nibbles(layout.CodeE2M1, widened(shape, 16*shape[len(shape)-1]), 32, layout.F8_E8M0)
}

type mlxMode struct {
	name, scheme string
	code         layout.Code
	group        uint64
	scale        layout.DType
}

// mlxModes are MLX's modes without biases, told by the words of a group.
var mlxModes = []mlxMode{
	{"mxfp4", MXFP4, layout.CodeE2M1, 32, layout.F8_E8M0},
	{"mxfp8", FP8, layout.CodeE4M3, 32, layout.F8_E8M0},
	{"nvfp4", NVFP4, layout.CodeE2M1, 16, layout.F8_E4M3},
}

func (s *shaping) mlx() error {
	w, codes, scale := s.w, s.part(Codes), s.part(Scale)
	if len(s.dims(codes)) < 2 || len(s.dims(scale)) != len(s.dims(codes)) || !slices.Equal(s.dims(scale)[:len(s.dims(scale))-1], s.dims(codes)[:len(s.dims(codes))-1]) {
		return misfit("scale %s of shape %v does not fit codes of shape %v", s.name(Scale), s.dims(scale), s.dims(codes))
	}
	words, groups := s.dims(codes)[len(s.dims(codes))-1], s.dims(scale)[len(s.dims(scale))-1]
	if s.part(GlobalScale) != nil {
		return unsupported("MLX's codes with a global scale (%s), as Ollama has them", s.name(GlobalScale))
	}
	if s.plain {
		s.params = s.conf.params // the companions are there all the same
	}
	mode := cmp.Or(s.format, "affine")
	if s.conf.method == "" {
		return misfit("bits and group size stand in no configuration")
	}
	if bias := s.part(Bias); mode == "affine" {
		if s.bits == 0 && s.group == 0 {
			return misfit("bits and group size stand in no configuration")
		}
		if bias == nil {
			return misfit("codes of mode affine without biases")
		}
		s.group, s.bits = cmp.Or(s.group, 64), cmp.Or(s.bits, 4)
		if !slices.Contains([]uint64{2, 3, 4, 5, 6, 8}, s.bits) {
			return unsupported("codes of %d bits", s.bits)
		}
		if scaleKinds[scale.DType]&floats == 0 || bias.DType.Kind() != layout.KindFloat || !slices.Equal(s.dims(bias), s.dims(scale)) {
			return misfit("bias %s of %v %v does not fit the scale's, %v %v", s.name(Bias), bias.DType, s.dims(bias), scale.DType, s.dims(scale))
		}
		for _, a := range s.conf.astray {
			bits, group := cmp.Or(a.bits, 4), cmp.Or(a.group, 64)
			if cmp.Or(a.format, "affine") == "affine" && words > 0 && (bits != s.bits || group != s.group) && words*32%bits == 0 && words*32/bits == groups*group {
				return misfit("codes %s of %d bits in groups of %d may have %d bits in groups of %d: the configuration says so of %s, which is no layer", s.name(Codes), s.bits, s.group, bits, group, layout.Quote([]byte(a.path)))
			}
		}
		w.Code, w.Bias, w.Zero, w.ScaleType = layout.Code(s.bits), true, Direct, scale.DType
	} else {
		i := slices.IndexFunc(mlxModes, func(m mlxMode) bool { return mode == m.name })
		if i < 0 {
			return unsupported("MLX's mode %s is not decoded", layout.Quote([]byte(mode)))
		}
		m := &mlxModes[i]
		switch {
		case bias != nil:
			return misfit("biases %s beside codes of mode %s, which has none", s.name(Bias), mode)
		case s.bits != 0 && s.bits != uint64(m.code.Bits()), s.group != 0 && s.group != m.group:
			return misfit("codes of mode %s in groups of %d with %d bits", mode, s.group, s.bits)
		case words*32 != groups*m.group*uint64(m.code.Bits()):
			return misfit("scales of shape %v do not fit codes of shape %v in mode %s", s.dims(scale), s.dims(codes), mode)
		}
		if scale.DType != layout.U8 && scale.DType != m.scale {
			return misfit("scale %s of type %v", s.name(Scale), scale.DType)
		}
		w.Scheme, w.Code, w.ScaleType = m.scheme, m.code, m.scale
		s.bits, s.group = uint64(m.code.Bits()), m.group
	}
	cols := words * 32 / s.bits
	if words*32%s.bits != 0 || groups > cols/s.group || groups*s.group != cols {
		return misfit("%d words of %d-bit codes are not %d groups of %d", words, s.bits, groups, s.group)
	}
	w.Scale, w.GroupRows, w.GroupCols, w.RowBytes = Direct, 1, s.group, words*4
	return s.matrix(widened(s.dims(codes), cols))
}

// packQuantized finds the form of integers in words, by the weight's shape if it is stored.
func (s *shaping) packQuantized() error {
	w, codes, scale := s.w, s.part(Codes), s.part(Scale)
	if len(s.dims(codes)) < 2 {
		return misfit("codes of shape %v are no matrix", s.dims(codes))
	}
	shape, err := s.storedShape(s.dims(codes))
	if err != nil {
		return err
	}
	words := s.dims(codes)[len(s.dims(codes))-1]
	if err := s.packing(shape, words); err != nil {
		return err
	}
	if shape == nil {
		shape = widened(s.dims(codes), words*32/uint64(w.Code.Bits()))
	}
	if err := s.matrix(shape); err != nil {
		return err
	}
	w.RowBytes, w.ScaleType, w.CodeOffset = 4*words, scale.DType, float32(uint64(1)<<(w.Code.Bits()-1))
	if err := s.scales(scale, nil); err != nil {
		return err
	}
	if s.part(Shape) == nil && (w.GroupCols == 0 || w.Cols%w.GroupCols != 0) {
		return misfit("codes without their shape, and without groups that tell how many of the columns are none")
	}
	if n, _ := elements(s.full); n == 0 {
		return nil
	}
	if err := s.asymmetry(); err != nil {
		return err
	}
	if zero := s.part(ZeroPoint); zero != nil && zero.DType == layout.I32 && w.Pack == layout.PackRows {
		want := widened(s.full, max(ceilDiv(w.Cols, w.GroupCols), 1))
		want[len(want)-2] = ceilDiv(w.Rows*uint64(w.Code.Bits()), 32)
		if w.GroupRows != 1 || !slices.Equal(s.dims(zero), want) {
			return misfit("zero points %s of shape %v do not fit scale %s of shape %v", s.name(ZeroPoint), s.dims(zero), s.name(Scale), s.dims(scale))
		}
		w.Zero, w.CodeOffset = PackedAlong, 0
	} else if zero != nil && zero.DType == layout.I32 {
		return unsupported("zero points in words with unused bits")
	} else if err := s.zeros(); err != nil {
		return err
	}
	return s.index()
}

// storedShape returns the shape that a part holds, or nil without one. It must have the codes'
// dimensions but the last.
func (s *shaping) storedShape(codes []uint64) ([]uint64, error) {
	t := s.part(Shape)
	if t == nil {
		return nil, nil
	}
	shape, err := integers(t.DType, s.content(Shape))
	if err != nil {
		return nil, err
	}
	if len(shape) != len(codes) || !slices.Equal(shape[:len(shape)-1], codes[:len(codes)-1]) || shape[len(shape)-1] > mostDim {
		return nil, misfit("shape %v, as %s has it, does not fit codes of shape %v", shape, s.name(Shape), codes)
	}
	return shape, nil
}

// packing finds bits and packing of codes in words: those of the configuration, or the only ones that
// fit.
func (s *shaping) packing(shape []uint64, words uint64) error {
	w := s.w
	var candidates []uint64
	for _, p := range s.candidates() {
		if p.err != nil {
			return p.err
		}
		if p.bits != 0 && p.kind != "float" && !slices.Contains(candidates, p.bits) {
			candidates = append(candidates, p.bits)
		}
	}
	said := len(candidates) > 0
	if !said {
		candidates = []uint64{4, 8, 2, 3, 5, 6, 7, 1}
	}
	if shape == nil && len(candidates) != 1 {
		return misfit("codes of unknown bits: there is neither a shape nor a configuration")
	}
	found := 0
	packings := []layout.Packing{layout.PackRows}
	switch {
	case s.conf.old:
		packings[0] = layout.PackWords
	case s.conf.version == "":
		packings = append(packings, layout.PackWords)
	}
	for _, pack := range packings {
		for _, b := range candidates {
			if b < 1 || b > 8 {
				return unsupported("codes of %d bits", b)
			}
			pack := pack
			if 32%b == 0 { // which leave no bit unused
				pack = layout.PackRows
			}
			fits := shape == nil && pack == layout.PackRows && words*32%b == 0
			if shape != nil {
				cols := shape[len(shape)-1]
				fits = pack == layout.PackRows && words == ceilDiv(cols*b, 32) || pack == layout.PackWords && words == ceilDiv(cols, 32/b)
			}
			if fits {
				if found++; found == 1 {
					w.Code, w.Pack = layout.Code(b), pack
				}
			}
		}
		if found > 0 {
			break
		}
	}
	switch {
	case found == 1 && shape != nil && s.conf.version == "" && eitherPacking(shape[len(shape)-1], uint64(w.Code.Bits())):
		return misfit("%d words a row of codes of %d bits may have unused bits, as old releases wrote: the configuration has no version", words, w.Code.Bits())
	case found == 0:
		return misfit("%d words a row do not hold shape %v in codes of %v bits", words, shape, candidates)
	case found > 1 && shape[len(shape)-1] > 0:
		return misfit("%d words a row hold shape %v in codes of more than one size, %v", words, shape, candidates)
	}
	return nil
}

// eitherPacking reports whether dense words and words with unused bits are as many for a row of codes, and not
// the same.
func eitherPacking(cols, bits uint64) bool {
	return 32%bits != 0 && cols > 32/bits && ceilDiv(cols*bits, 32) == ceilDiv(cols, 32/bits)
}

// elementsOf returns the number of elements of a part.
func (s *shaping) elementsOf(r Role) uint64 {
	t := s.part(r)
	if t == nil {
		return 0
	}
	n, _ := elements(s.dims(t))
	return n
}
