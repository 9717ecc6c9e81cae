package safetensors

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Format describes SafeTensors files.
var Format = layout.FileFormat{Name: layout.SafeTensors, Suffix: ".safetensors", Matches: matches, Decode: layout.AsDecoder(Decode)}

// matches recognises a format without a magic: a header length that fits the file, then a JSON object, with white space before it
// or not.
func matches(in layout.Input, head []byte) bool {
	if len(head) <= sizeBytes {
		return false
	}
	size, rest := binary.LittleEndian.Uint64(head), head[sizeBytes:]
	start := bytes.TrimLeft(rest, jsonSpace)
	object := len(start) > 0 && start[0] == '{' || len(start) == 0 && size > uint64(len(rest))
	return object && layout.Within(sizeBytes, size, in.Size())
}

// jsonSpace is the white space of JSON.
const jsonSpace = " \t\r\n"

const (
	sizeBytes    = 8 // the header's size stands before the header
	headerField  = "header"
	metadataKey  = "__metadata__"
	offsetsField = "data_offsets"

	// smallest is the fewest bytes that a tensor takes in the header, comma included.
	smallest = len(`"":{"dtype":"F4","shape":[],"data_offsets":[0,0]},`)
)

// dtypes are the types of the format, the most frequent first. Package layout has the same names, and more types.
var dtypes = []layout.DType{
	layout.BF16, layout.F32, layout.F16, layout.F8_E4M3, layout.U8, layout.I8, layout.I32, layout.I64, layout.U32,
	layout.F64, layout.BOOL, layout.I16, layout.U16, layout.U64, layout.C64, layout.F8_E5M2, layout.F8_E8M0,
	layout.F8_E4M3FNUZ, layout.F8_E5M2FNUZ, layout.F6_E2M3, layout.F6_E3M2, layout.F4,
}

// dtypeNamed returns the type that the format calls name, or Invalid.
func dtypeNamed(name string) layout.DType {
	for _, d := range dtypes {
		if name == d.String() {
			return d
		}
	}
	return layout.Invalid
}

// Holds reports whether the format has a name for d.
func Holds(d layout.DType) bool { return slices.Contains(dtypes, d) }
