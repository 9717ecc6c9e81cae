package bw2l

import "github.com/tensormap/tensormap/layout"

// Format describes BW2L files.
var Format = layout.FileFormat{Name: layout.BW2L, Suffix: ".bw2l", Matches: layout.Magic(0, magic), Decode: layout.AsDecoder(Decode)}

const magic = "BW2L"

// The types of sections. Sections of other types become Blobs.
const (
	typeUTF8   = "utf8"
	typeKeyval = "keyval"
	typeData   = "data"
	typeArray  = "array"
	typeLayers = "layers"
)

var types = []string{typeUTF8, typeKeyval, typeData, typeArray, typeLayers}

// The fewest bytes of records: all lengths and counts are 0, but an element type has two letters. Records of layers and arrays go by the
// version.
const minSection = 1 + 1 + 8 + 8

var (
	minLayer = [...]uint64{1: 8 + 4 + 8 + 8, 2: 8 + 8}
	minArray = [...]uint64{1: 1 + 2 + 8, 2: 1 + 2 + 8 + 1}
)

// elementTypes are the format's names of types.
var elementTypes = map[string]layout.DType{
	"fp64": layout.F64, "fp32": layout.F32, "fp16": layout.F16, "i64": layout.I64, "i32": layout.I32, "i16": layout.I16, "i8": layout.I8,
}

// Section is a part of a file, as its header describes it.
type Section struct {
	Name string
	// Type is utf8, keyval, data, array, layers, or unknown.
	Type string
	// Offset and Size are the place of the section's data in the file, in bytes.
	Offset, Size uint64

	desc layout.Section
	// In a section of type layers: their number, and the first one's position in File.layers.
	layers, firstLayer int
}

// layer is one layer of a section of type layers.
type layer struct {
	archOffset, archSize uint64
	quant                layout.Quant // version 1
	params               int
}

// arch returns where the layer's architecture is. Layers do not store its name: 16 zeros of a file, even of its holes, are a layer.
func (l *layer) arch() layout.Section {
	return layout.Section{Name: "arch", Offset: l.archOffset, Size: l.archSize}
}

// array is a tensor that has no name yet.
type array struct {
	at, data uint64 // where its header begins, and its elements
	// Where it belongs: section is a position in File.Sections.
	section, layer, param int32
	rank                  uint8
	dtype                 layout.DType
}
