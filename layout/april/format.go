package april

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// Format describes April model files.
var Format = layout.FileFormat{Name: layout.April, Suffix: ".april", Matches: layout.Magic(0, magic), Decode: layout.AsDecoder(Decode)}

const (
	magic       = "APRILMDL"
	version     = 1
	paramsMagic = "PARAMS\x00\x00"
)

// Offsets of the file's first fields. Behind the language tag nothing has a fixed place.
const (
	atMagic      = 0
	atVersion    = 8
	atHeaderSize = 12
	atHeader     = 20
	languageSize = 8
	entrySize    = 16
	numNetworks  = 3
)

// modelType is LSTM_TRANSDUCER_STATELESS, the only type that there is: encoder, decoder, joiner.
const (
	modelType     = 1
	modelTypeName = "LSTM_TRANSDUCER_STATELESS"
)

// roles names the networks in the order of the header.
var roles = [numNetworks]string{"encoder", "decoder", "joiner"}

// Entry is a part of the file: the specification's ArchiveFileEntry.
type Entry struct {
	Offset uint64 // from the start of the file
	Size   uint64 // bytes
}

// end returns the offset behind the part.
func (e Entry) end() uint64 { return e.Offset + e.Size }

// The fields that the index needs, by their numbers in onnx.proto.
const (
	modelGraph = 7 // of ModelProto

	graphInitializer       = 5 // of GraphProto
	graphSparseInitializer = 15

	tensorDims         protowire.Number = 1 // of TensorProto
	tensorDataType     protowire.Number = 2
	tensorSegment      protowire.Number = 3
	tensorFloatData    protowire.Number = 4
	tensorInt32Data    protowire.Number = 5
	tensorStringData   protowire.Number = 6
	tensorInt64Data    protowire.Number = 7
	tensorName         protowire.Number = 8
	tensorRawData      protowire.Number = 9
	tensorDoubleData   protowire.Number = 10
	tensorUint64Data   protowire.Number = 11
	tensorExternalData protowire.Number = 13
	tensorDataLocation protowire.Number = 14
)

// tensorFields says how the fields of a TensorProto are written. Numbers of a field are
// written one by one, in the wire type given, or packed into a record of bytes if they are repeated.
var tensorFields = [...]struct {
	name     string
	wire     protowire.Type
	repeated bool
}{
	tensorDims:         {"dims", protowire.VarintType, true},
	tensorDataType:     {"data_type", protowire.VarintType, false},
	tensorSegment:      {"segment", protowire.BytesType, false},
	tensorFloatData:    {"float_data", protowire.Fixed32Type, true},
	tensorInt32Data:    {"int32_data", protowire.VarintType, true},
	tensorStringData:   {"string_data", protowire.BytesType, true},
	tensorInt64Data:    {"int64_data", protowire.VarintType, true},
	tensorName:         {"name", protowire.BytesType, false},
	tensorRawData:      {"raw_data", protowire.BytesType, false},
	tensorDoubleData:   {"double_data", protowire.Fixed64Type, true},
	tensorUint64Data:   {"uint64_data", protowire.VarintType, true},
	tensorExternalData: {"external_data", protowire.BytesType, true},
	tensorDataLocation: {"data_location", protowire.VarintType, false},
}

// dataFields has a bit 1<<number for each field that elements may be in.
const dataFields = 1<<tensorFloatData | 1<<tensorInt32Data | 1<<tensorStringData | 1<<tensorInt64Data |
	1<<tensorRawData | 1<<tensorDoubleData | 1<<tensorUint64Data

// dataTypes is TensorProto.DataType. Types without a DType are not supported: strings have no fixed size, and ONNX pads a tensor of
// elements narrower than a byte.
var dataTypes = [...]layout.DType{
	1: layout.F32, 2: layout.U8, 3: layout.I8, 4: layout.U16, 5: layout.I16, 6: layout.I32, 7: layout.I64, 9: layout.BOOL,
	10: layout.F16, 11: layout.F64, 12: layout.U32, 13: layout.U64, 14: layout.C64, 15: layout.C128, 16: layout.BF16,
	17: layout.F8_E4M3, 18: layout.F8_E4M3FNUZ, 19: layout.F8_E5M2, 20: layout.F8_E5M2FNUZ, 24: layout.F8_E8M0,
}

// unsupported has ONNX's names of the types that have no DType.
var unsupported = map[int32]string{
	0: "UNDEFINED", 8: "STRING", 21: "UINT4", 22: "INT4", 23: "FLOAT4E2M1", 25: "UINT2", 26: "INT2", 27: "FLOAT6E2M3", 28: "FLOAT6E3M2",
}

// fieldOf returns the field of a TensorProto that holds elements of type d, one of dataTypes, if raw_data does not.
func fieldOf(d layout.DType) protowire.Number {
	switch d {
	case layout.F32, layout.C64:
		return tensorFloatData
	case layout.F64, layout.C128:
		return tensorDoubleData
	case layout.I64:
		return tensorInt64Data
	case layout.U32, layout.U64:
		return tensorUint64Data
	}
	return tensorInt32Data
}
