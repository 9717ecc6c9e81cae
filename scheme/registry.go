package scheme

import (
	"cmp"
	"slices"
	"strings"
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
	// weight. setForm calls setMatrix or sets w.shape, and sets these of w.Form:
	//   - Code and Pack; GroupRows and GroupCols, where 0 means all rows or columns of a matrix
	//   - HasOffsets if each group has a zero point or a bias; Bias if it is added after scaling
	//   - Ordered if scales of some groups can be read alone. Without it all are read for each row, or cached
	//   - scaleType if the stored scales are to be read as another type than that of their tensor
	//   - reader unless scales and offsets are what is stored; groupIndex and checker if parts tell more.
	// A scheme without setForm is known by the names of its parts, and not decoded.
	setForm  func(w *weight) error
	patterns []pattern // how the parts of a weight are named and typed, for each writer
}

// patterns lists the patterns of all schemes, longer ends of codes' names first: X.weight_packed is not a weight called X.weight.
var patterns []pattern

// init registers all schemes. Patterns whose ends of codes' names are equally long are tried in this order. docs/architecture.md says
// how to add a scheme.
func init() {
	register(fp8, intQuantized, packQuantized, nvfp4, mxfp4, mlxAffine, gptq, awq, bnb4, bnbInt8, hqq, bitnet)
	register(undecoded...)
}

// register appends the patterns of schemes to patterns, and fills in what they have of their scheme. It sorts patterns by the length
// of codesEnd, longest first; equal lengths keep the order of the calls.
func register(schemes ...scheme) {
	for _, s := range schemes {
		for _, p := range s.patterns {
			p.schemeName = cmp.Or(p.schemeName, s.name)
			if strings.HasPrefix(p.codesEnd, ".") {
				p.nameEnd = weightEnd
			}
			if p.scaleRole == Codes { // the zero value: the scheme has not set it
				p.scaleRole = Scale
			}
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
