package scheme

import (
	"fmt"

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

// A Weight is a tensor that a checkpoint stores as several: its codes, and what they need to become
// values.
type Weight struct {
	// Name is the weight's own, which may be that of its codes.
	Name []byte
	// Shape is the shape of the values.
	Shape []int
	// Parts are the tensors that hold the weight, the codes first.
	Parts []Part
	// Err says why the weight cannot be decoded. Name is then that of the codes, Parts holds only
	// them, and there is neither Shape nor Form.
	Err error

	*Form // which weights that are alike share
}

// A Part is a stored tensor of a weight.
type Part struct {
	Role   Role
	Tensor uint32 // position in the table
}

// Part returns the position of the tensor that has a role. ok is false without one.
func (w *Weight) Part(r Role) (tensor uint32, ok bool) {
	for _, p := range w.Parts {
		if p.Role == r {
			return p.Tensor, true
		}
	}
	return 0, false
}

// A Form says how the codes of a weight become values. A code's scale and offset are those of its group. Rows and
// Cols are those of one matrix: a weight of more dimensions is several matrices, back to back.
type Form struct {
	// Scheme names the convention, such as awq.
	Scheme string

	layout.Grouped
	// Scale says how the entries of the scale grid are stored, and Zero the offsets.
	Scale Grid
	Zero  Grid
	// Global says how a scale of scales is applied.
	Global Global
	// ScaleType is the type of the stored scales. It differs from their tensor's for floats of 8 bits
	// in a U8 tensor.
	ScaleType layout.DType
	// Reciprocal says that codes are divided by what is stored as their scale.
	Reciprocal bool
	// OneMore says that zero points are stored less one.
	OneMore bool
	// Symmetric says that the zero point of every group is 2^(bits−1). All stored ones must be this number, or all
	// must be one less: programs disagree about OneMore.
	Symmetric bool
	// IgnoreZeroIndex says that a group index of nothing but zeros means consecutive groups.
	IgnoreZeroIndex bool
	// UnsetIndex says that a group index of nothing but −1 was never set, and means consecutive groups.
	UnsetIndex bool

	// CodeOffset is the offset of every code, or added to the zero points if Zero is Direct.
	CodeOffset float32
	// NestedBlock counts the scales that share a scale, and NestedOffset is added to each, if Scale is
	// Nested.
	NestedBlock  uint64
	NestedOffset float32
}

// nameOf returns the name of a value of a type, or its number.
func nameOf(names []string, of string, v uint8) string {
	if int(v) >= len(names) {
		return fmt.Sprintf("%s(%d)", of, v)
	}
	return names[v]
}

// Grid says how scales or offsets are stored.
type Grid uint8

// The kinds of grids. The scale grid is [matrix][group of rows][group of columns].
const (
	None         Grid = iota // there are none
	Direct                   // elements in the order of the scale grid
	Transposed               // elements in the order [group of columns][row]
	Nested                   // U8 codes of bitsandbytes, with a scale for every block of them
	PackedAWQ                // words as layout.PackAWQ has them
	PackedGPTQ               // words along the rows, in the order [group of columns][row]
	PackedPlanes             // PackedGPTQ with 32 codes in bit planes
	PackedRows               // words along the groups, as layout.PackRows has them
	PackedAlong              // words that hold consecutive rows, one for every group of columns
)

var grids = [...]string{"none", "direct", "transposed", "nested", "packed awq", "packed gptq", "packed planes", "packed rows", "packed along"}

// String returns a name of the kind of grid.
func (g Grid) String() string { return nameOf(grids[:], "Grid", uint8(g)) }

// Global says what a scale of scales does to the scales.
type Global uint8

// The kinds of global scales.
const (
	NoGlobal Global = iota
	Multiplies
	Divides
)

var globals = [...]string{"none", "multiplies", "divides"}

// String returns a name of what the scale of scales does.
func (g Global) String() string { return nameOf(globals[:], "Global", uint8(g)) }

// Role is what a part is to its weight.
type Role uint8

// The roles.
const (
	Codes       Role = iota
	Scale            // the scale of each group
	ZeroPoint        // the zero point of each group
	Bias             // what is added to the values of each group
	GlobalScale      // the scale of scales
	GroupIndex       // the group of each column
	Shape            // the weight's shape
	QuantMap         // the values that codes stand for
	NestedScale      // the scale of each block of scales
	NestedMap        // the values that codes of scales stand for
	QuantState       // a description in JSON
	Layout           // how codes are arranged
	InputScale       // of the weight's input, not of the weight
	Setting          // another parameter of the writer
)

var roles = [...]string{"codes", "scale", "zero_point", "bias", "global_scale", "g_idx", "shape", "quant_map", "nested_scale", "nested_map", "quant_state", "format", "input_scale", "setting"}

// String returns the role's name as inspect prints it.
func (r Role) String() string { return nameOf(roles[:], "Role", uint8(r)) }

// MarshalText returns what String does.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
