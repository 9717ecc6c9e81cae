package layout

import "github.com/tensormap/tensormap/layout/internal/flags"

// Grouped describes a tensor of codes whose scales lie apart. The value of an element is
// (code − offset) · scale, or code · scale + offset if Bias is true.
//
// Sizes are for one matrix in its logical order, whatever the order of its codes. A tensor of
// more dimensions is several matrices, one after the other, in codes and scales.
type Grouped struct {
	Code Code
	Pack Packing
	Bias bool
	// Permuted columns have their groups from a list (act-order).
	Permuted bool

	Rows, Cols uint64
	// RowBytes is the distance of two rows of codes, or 0 if they leave no byte between them. Only
	// PackRows and PackWords have it.
	RowBytes uint64
	// GroupRows × GroupCols elements share a scale; 0 means all rows or columns. Groups at the edges
	// may be smaller.
	GroupRows, GroupCols uint64
	// ScaleCols is the number of scales from one row of groups to the next, or 0 if there are as many
	// as groups.
	ScaleCols uint64
}

// A Code says what the code of an element stands for, before its scale. Code(1) to Code(8) are
// unsigned integers of 1 to 8 bits. They lie without gaps, the first in the lowest bits.
type Code uint8

// Codes other than unsigned integers. The first has the values of the tensor's own type. The next four take a
// byte, the others a nibble.
const (
	CodeBlocks    Code = 0
	CodeInt8      Code = 16 + iota // two's complement
	CodeInt8By127                  // bitsandbytes' int8: the scaled value is multiplied by float32(1/127)
	CodeE4M3                       // F8_E4M3
	CodeE5M2                       // F8_E5M2
	CodeE2M1                       // the lower nibble first; code 8 is −0 (transformers, MLX, compressed-tensors)
	CodeE2M1Plus                   // E2M1, but code 8 is +0 (ModelOpt, ggml)
	CodeNF4                        // bitsandbytes' table, the upper nibble first
	CodeFP4                        // bitsandbytes' table, the upper nibble first
)

// Bits returns the size of a code, or 0 for CodeBlocks.
func (c Code) Bits() int {
	switch {
	case c <= 8:
		return int(c)
	case c < CodeE2M1:
		return 8
	}
	return 4
}

var codeNames = [...]string{
	"blocks", "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7", "uint8",
	CodeInt8: "int8", CodeInt8By127: "int8/127", CodeE4M3: "e4m3", CodeE5M2: "e5m2",
	CodeE2M1: "e2m1", CodeE2M1Plus: "e2m1 without -0", CodeNF4: "nf4", CodeFP4: "fp4",
}

// String returns a name of the kind of codes.
func (c Code) String() string { return flags.Constant("Code", codeNames[:], uint8(c)) }

// A Packing says where the codes of a matrix lie.
type Packing uint8

// Packings, with Rows and Cols as in Grouped.
const (
	// PackRows has the codes of one row after the other.
	PackRows Packing = iota
	// PackWords is PackRows in words of 32 bits, each with as many whole codes as fit. The upper bits
	// of a word stay unused. Old releases of compressed-tensors write so.
	PackWords
	// PackGPTQ has 32-bit words [ceil(Cols × bits / 32), Rows]. Column r of the words is the dense row
	// r of codes.
	PackGPTQ
	// PackAWQ has 32-bit words [Cols, ceil(Rows / 8)] of AutoAWQ's gemm. A word holds the nibbles of
	// eight rows in the order 0, 2, 4, 6, 1, 3, 5, 7.
	PackAWQ
	// PackSlabs divides the rows into as many ranges of equal length, called slabs, as a byte holds codes. The k-th rows of all slabs
	// share their bytes, and the first slab has the highest bits. Codes of 3 bits have ten slabs, in 32-bit words. The last slab may be
	// short. HQQ writes so.
	PackSlabs
	// PackLowSlabs is PackSlabs whose first slab has the lowest bits. BitNet's codes of 2 bits lie so.
	PackLowSlabs
	// PackPlanes is PackGPTQ with the 32 codes of Code.Bits() words in bit planes: first the words of the
	// lowest 4 (or 2) bits of all, then the next 2 bits, then the last. A plane's fields
	// are in order, the first in the lowest bits. GPTQModel writes codes of 3, 5, 6 and 7 bits so.
	PackPlanes
)

var packingNames = [...]string{"rows", "words", "gptq", "awq", "slabs", "low slabs", "planes"}

// String returns a name of the packing.
func (p Packing) String() string { return flags.Constant("Packing", packingNames[:], uint8(p)) }
