package bw2l

import "github.com/tensormap/tensormap/layout"

// Format describes BW2L files.
var Format = layout.FileFormat{Name: layout.BW2L, Suffix: ".bw2l", Matches: layout.Magic(0, magic), Decode: layout.AsDecoder(Decode)}

const magic = "BW2L"

// The types of sections. Others are carried as they are.
const (
	typeUTF8   = "utf8"
	typeKeyval = "keyval"
	typeData   = "data"
	typeArray  = "array"
	typeLayers = "layers"
)

var types = []string{typeUTF8, typeKeyval, typeData, typeArray, typeLayers}

// minSection is the least that a section takes: all lengths are 0. So are those and the
// counts of minLayer and minArray, but that an element type has two letters; the version
// is 1 or 2.
const minSection = 1 + 1 + 8 + 8

func minLayer(version uint8) uint64 {
	if version == 1 {
		return 8 + 4 + 8 + 8
	}
	return 8 + 8
}

func minArray(version uint8) uint64 {
	return 1 + 2 + 8 + uint64(version-1)
}

// elementType is Invalid for a name that is not in the format's list.
func elementType(name []byte) layout.DType {
	switch string(name) {
	case "fp64":
		return layout.F64
	case "fp32":
		return layout.F32
	case "fp16":
		return layout.F16
	case "i64":
		return layout.I64
	case "i32":
		return layout.I32
	case "i16":
		return layout.I16
	case "i8":
		return layout.I8
	}
	return layout.Invalid
}

// Section is a part of a file, as its header describes it.
type Section struct {
	Name string
	// Type is utf8, keyval, data, array or layers, or unknown here.
	Type string
	// Offset and Size are where the section's data is in the file, in bytes.
	Offset, Size uint64

	desc span
	// In a section of type layers: how many, and the first one's place in File.layers.
	layers, firstLayer int
}

// span is a piece of the file.
type span struct{ off, size uint64 }

// layer is one layer of a section of type layers.
type layer struct {
	arch   span
	quant  layout.Quant // version 1
	params int
}

// arrayBytes is the fewest bytes of a file for each of many arrays.
const arrayBytes = 48

// array is a tensor that has no name yet.
type array struct {
	at         uint64 // where its header begins
	data, size uint64 // its elements, in bytes
	rank       uint8
	dtype      layout.DType
}

// sectionType is name, without memory of its own where the format knows it.
func sectionType(name []byte) string {
	for _, known := range types {
		if string(name) == known {
			return known
		}
	}
	return string(name)
}
