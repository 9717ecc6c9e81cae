package tsm

import "github.com/tensormap/tensormap/layout"

// Format describes TSM modules.
var Format = layout.FileFormat{Name: layout.TSM, Suffix: ".tsm", Matches: layout.Magic(4, "\x29\x09\x91\x19"), Decode: layout.AsDecoder(Decode)}

const (
	moduleCode = 0x19910929
	headerSize = 128 // fake, code and 120 reserved bytes

	// The fewest bytes of a record. A count of more than fit is refused.
	minIndex  = 4
	minNode   = 8 // no params, no inputs
	minParam  = 8 // no name, no fields
	minTensor = 5 // no dimensions, no memory

	// The specification says [0,32) for the length of a param's name. No
	// known reader or writer enforces it.
	maxParamName     = 31
	longestParamName = 4096
)

// dtypes has the types by their number in the file. Numbers 0 to 24 are the
// specification's, with the sizes of TenniS. FLOAT64 has 8 bytes and not 6
// (corrected upstream on 2018-12-17), BOOLEAN and COMPLEX* have 1, 4, 8 and 16.
// 25 to 32, SINK8Q0 to SINK8Q7, are later additions.
var dtypes = [...]layout.DType{
	0: layout.VOID, 1: layout.I8, 2: layout.U8, 3: layout.I16, 4: layout.U16, 5: layout.I32, 6: layout.U32, 7: layout.I64, 8: layout.U64,
	9: layout.F16, 10: layout.F32, 11: layout.F64,
	ptr: layout.Invalid, // an address says nothing on disk
	13:  layout.CHAR8, 14: layout.CHAR16, 15: layout.CHAR32,
	16: layout.UNKNOWN8, 17: layout.UNKNOWN16, 18: layout.UNKNOWN32, 19: layout.UNKNOWN64, 20: layout.UNKNOWN128,
	21: layout.BOOL, 22: layout.C32, 23: layout.C64, 24: layout.C128,
	25: layout.FIXED_Q0, 26: layout.FIXED_Q1, 27: layout.FIXED_Q2, 28: layout.FIXED_Q3,
	29: layout.FIXED_Q4, 30: layout.FIXED_Q5, 31: layout.FIXED_Q6, 32: layout.FIXED_Q7,
}

const ptr = 12

// dtypeOf returns the type with number id, or Invalid.
func dtypeOf(id uint32) layout.DType {
	if id >= uint32(len(dtypes)) {
		return layout.Invalid
	}
	return dtypes[id]
}

// special is a param that describes its node, in the order of specials.
type special int

const (
	nameParam special = iota
	opParam
	shapeParam
	dtypeParam
	outputCountParam
	notSpecial
)

// specials are the params that TenniS reserves. All have one field of at most one
// dimension.
var specials = [notSpecial]struct {
	name  string
	dtype layout.DType
	list  bool // any number of elements in one dimension, else a single one
}{
	nameParam:        {"#name", layout.CHAR8, true},
	opParam:          {"#op", layout.CHAR8, true},
	shapeParam:       {"#shape", layout.I32, true},
	dtypeParam:       {"#dtype", layout.I32, false},
	outputCountParam: {"#output_count", layout.I32, false},
}

// specialNamed returns the special param of a name, or notSpecial.
func specialNamed(name []byte) special {
	for which := range notSpecial {
		if specials[which].name == string(name) {
			return which
		}
	}
	return notSpecial
}
