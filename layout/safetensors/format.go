package safetensors

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/layout"
)

// Format describes SafeTensors files.
var Format = layout.FileFormat{Name: layout.SafeTensors, Suffix: ".safetensors", Matches: matches, Decode: layout.AsDecoder(Decode)}

// matches recognises a format without a magic: a header length that fits the file, then a JSON object.
func matches(in layout.Input, head []byte) bool {
	return len(head) > 8 && head[8] == '{' && layout.Within(8, binary.LittleEndian.Uint64(head), in.Size())
}

// File is a decoded SafeTensors file.
type File struct {
	index    *layout.Index
	header   uint64 // size of the header
	metadata span   // of __metadata__'s value in the file; empty without it
	lim      layout.Limits
}

type span struct{ off, size uint64 }

var _ layout.File = (*File)(nil)

// Index describes the tensors, in the order of the header.
func (f *File) Index() *layout.Index { return f.index }

const (
	sizeBytes    = 8 // the header's size stands before the header
	headerField  = "header"
	metadataKey  = "__metadata__"
	offsetsField = "data_offsets"

	// smallest is the fewest bytes that a tensor takes in the header, comma included.
	smallest = len(`"":{"dtype":"F4","shape":[],"data_offsets":[0,0]},`)
)

// dtypeNamed returns the type that the format calls name, or Invalid. The names are those of
// layout, which knows more types than this format may hold.
func dtypeNamed(name []byte) layout.DType {
	switch string(name) {
	case "BF16":
		return layout.BF16
	case "F16":
		return layout.F16
	case "F32":
		return layout.F32
	case "F64":
		return layout.F64
	case "BOOL":
		return layout.BOOL
	case "I8":
		return layout.I8
	case "I16":
		return layout.I16
	case "I32":
		return layout.I32
	case "I64":
		return layout.I64
	case "U8":
		return layout.U8
	case "U16":
		return layout.U16
	case "U32":
		return layout.U32
	case "U64":
		return layout.U64
	case "C64":
		return layout.C64
	case "F8_E4M3":
		return layout.F8_E4M3
	case "F8_E5M2":
		return layout.F8_E5M2
	case "F8_E8M0":
		return layout.F8_E8M0
	case "F8_E4M3FNUZ":
		return layout.F8_E4M3FNUZ
	case "F8_E5M2FNUZ":
		return layout.F8_E5M2FNUZ
	case "F6_E2M3":
		return layout.F6_E2M3
	case "F6_E3M2":
		return layout.F6_E3M2
	case "F4":
		return layout.F4
	}
	return layout.Invalid
}

// Holds reports whether the format has a name for d.
func Holds(d layout.DType) bool { return d.Valid() && dtypeNamed([]byte(d.String())) == d }
