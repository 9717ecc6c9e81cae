package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// The names of the schemes that can be decoded.
const (
	AWQ           = "awq"
	GPTQ          = "gptq"
	BnbNF4        = "bnb-nf4"
	BnbFP4        = "bnb-fp4"
	BnbInt8       = "bnb-int8"
	FP8           = "fp8" // of any granularity, whoever wrote it; of groups of 32 too
	IntQuantized  = "int-quantized"
	PackQuantized = "pack-quantized"
	NVFP4         = "nvfp4" // of compressed-tensors, ModelOpt, MLX, and GGUF with a companion scale
	MXFP4         = "mxfp4" // of gpt-oss, compressed-tensors, MLX, DeepSeek-V4
	MLXAffine     = "mlx-affine"
	HQQ           = "hqq"
	BitNet        = "bitnet" // ternary codes of transformers' BitLinear and AutoBitLinear
)

// A scheme is one way to store a weight as several tensors. It stands in a file of its own.
type scheme struct {
	name string
	// setForm finds the shape of a weight and how its codes lie. It compares the shapes of all parts with each other and with
	// the configuration. w.part returns a part and notes that setForm has looked at it: a part nobody looked at refuses the
	// weight. setForm calls setMatrix or sets w.shape, and sets these fields of w.Form:
	//   - Code and Pack; GroupRows and GroupCols, where 0 means all rows or columns of a matrix
	//   - HasOffsets if each group has a zero point or a bias; Bias if it is added after scaling
	//   - Ordered if scales of some groups can be read alone. Without it all are read for each row, or cached
	//   - scaleType if the stored scales are to be read as another type than the type of their tensor
	//   - reader unless scales and offsets are what is stored; groupIndex and checker if parts tell more.
	// A scheme without setForm is known by the names of its parts, and not decoded.
	setForm  func(w *weight) error
	patterns []pattern // how the parts of a weight are named and typed, for each writer
}

// A pattern is one way to name and type the parts of a weight. All names begin with the same stem.
type pattern struct {
	schemeName string   // if it is not the scheme's; setForm may find another
	codesEnd   string   // how the name of the codes ends
	nameEnd    string   // how the name of the weight ends: .weight if codesEnd begins with a dot
	codesTypes types    // the types that codes may have
	scaleEnds  []string // how the name of the scale may end
	scaleTypes types    // the types that the scale may have: a scale of another type counts as missing; 0 allows any
	scaleRole  Role     // the role of this tensor, if it is not the scale
	companions []companion
	required   []Role // of companions: weights without them are refused
	// acceptsShapes reports whether the shapes are this scheme's. It is for schemes that share names. If it is nil, all shapes are accepted.
	acceptsShapes   func(c *Config, codes, scale *layout.Tensor) bool
	nameTellsScheme bool // the name of codes alone tells the scheme: codes without their scale are refused, not taken for a plain tensor
	// swapsCodesAndScale says that codesEnd and codesTypes are for the tensor with scaleRole, and scaleEnds for the codes. The search still
	// begins at the tensor that fits codesEnd. This suits codes of many types, beside a tensor whose name tells the scheme.
	swapsCodesAndScale bool
	setForm            func(w *weight) error // if it is not the scheme's
	// refusal says why weights of the pattern are not decoded.
	refusal error
	// lacksScale is set if codes are floats, as the weights of plain models are. It reports whether t, a matrix of floats without a scale,
	// ought to have a scale.
	lacksScale func(c *Config, t *layout.Tensor) bool
}

// givesOtherName reports whether decoded weights of the pattern have another name than their codes.
func (p *pattern) givesOtherName() bool {
	return p.refusal == nil && !p.swapsCodesAndScale && p.codesEnd != p.nameEnd
}

// companion is a part of a weight that may be missing.
type companion struct {
	end             string // how its name ends
	role            Role
	isFromLayerPath bool // the name begins with the path of the layer: the stem less ".weight"
}

// companionsWithRole returns a companion of the role for each end. Its name is the stem, which all tensors of the weight share, and then the end.
func companionsWithRole(role Role, ends ...string) (list []companion) {
	for _, end := range ends {
		list = append(list, companion{end: end, role: role})
	}
	return list
}

// tensorCompanions are companions of weights of compressed-tensors, and of other writers with the same names.
var tensorCompanions = []companion{
	{end: "_zero_point", role: ZeroPoint},
	{end: "_g_idx", role: GroupIndex},
	{end: ".input_scale", role: InputScale, isFromLayerPath: true},
	{end: ".input_zero_point", role: InputScale, isFromLayerPath: true},
	{end: ".input_global_scale", role: InputScale, isFromLayerPath: true},
	{end: ".comfy_quant", role: QuantState, isFromLayerPath: true},
}

// packedCompanions are companions of compressed-tensors' packed weights.
var packedCompanions = append([]companion{{end: "_shape", role: Shape}, {end: "_global_scale", role: GlobalScale}}, tensorCompanions...)

// types is a set of the types that codes or scales have.
type types uint16

const (
	floats types = 1 << iota // F32, F16, BF16
	e4m3
	otherF8 // F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ
	e8m0
	u8
	i8
	i16
	i32
	u32
	i64
	nvfp4Blocks // NVFP4
	f4          // F4, whose shape counts codes
	f6          // F6_E2M3, F6_E3M2

	f8         = e4m3 | otherF8
	needsScale = f4 | f6 | f8 // types whose values mean nothing without a scale
	mayBeCodes = needsScale | u8 | i8 | i16 | i32 | u32 | i64 | nvfp4Blocks
)

var typeOf = [256]types{
	layout.F32: floats, layout.F16: floats, layout.BF16: floats, layout.F8_E4M3: e4m3, layout.F8_E8M0: e8m0,
	layout.F8_E5M2: otherF8, layout.F8_E4M3FNUZ: otherF8, layout.F8_E5M2FNUZ: otherF8,
	layout.U8: u8, layout.I8: i8, layout.I16: i16, layout.I32: i32, layout.U32: u32, layout.I64: i64,
	layout.NVFP4: nvfp4Blocks, layout.F4: f4, layout.F6_E2M3: f6, layout.F6_E3M2: f6,
}

// isFloat reports whether d is F32, F16 or BF16.
func isFloat(d layout.DType) bool { return typeOf[d] == floats }

// patterns lists the patterns of all schemes, longer ends of codes' names first: X.weight_packed is not a weight called X.weight.
var patterns []pattern

// init registers all schemes. Patterns whose ends of codes' names are equally long are tried in this order. docs/architecture.md says
// how to add a scheme.
func init() {
	register(fp8, intQuantized, packQuantized, nvfp4, mxfp4, mlxAffine, gptq, awq, bnb4, bnbInt8, hqq, bitnet)
	register(undecoded...)
}

// register appends the patterns of schemes to patterns, and fills in the fields that a pattern takes from its scheme. It
// sorts patterns by the length of codesEnd, longest first; equal lengths keep the order of the calls.
func register(schemes ...scheme) {
	for _, s := range schemes {
		for _, p := range s.patterns {
			p.schemeName = cmp.Or(p.schemeName, s.name)
			if strings.HasPrefix(p.codesEnd, ".") {
				p.nameEnd = weightEnd
			}
			p.scaleRole = cmp.Or(p.scaleRole, Scale) // the zero value, Codes, says that the scheme has not set it
			if p.setForm == nil {
				p.setForm = s.setForm
			}
			if p.setForm == nil {
				p.refusal = unsupportedf("%s is not decoded", s.name)
			}
			patterns = append(patterns, p)
		}
	}
	slices.SortStableFunc(patterns, func(a, b pattern) int { return cmp.Compare(len(b.codesEnd), len(a.codesEnd)) })
}
