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

// dataTypes is TensorProto.DataType: the type of the elements, and the field that holds
// them if raw_data does not. Types without a DType are not supported: strings have no
// fixed size, and ONNX pads a tensor of elements narrower than a byte.
var dataTypes = [...]struct {
	name  string
	dtype layout.DType
	field protowire.Number
}{
	0:  {"UNDEFINED", layout.Invalid, 0},
	1:  {"FLOAT", layout.F32, tensorFloatData},
	2:  {"UINT8", layout.U8, tensorInt32Data},
	3:  {"INT8", layout.I8, tensorInt32Data},
	4:  {"UINT16", layout.U16, tensorInt32Data},
	5:  {"INT16", layout.I16, tensorInt32Data},
	6:  {"INT32", layout.I32, tensorInt32Data},
	7:  {"INT64", layout.I64, tensorInt64Data},
	8:  {"STRING", layout.Invalid, 0},
	9:  {"BOOL", layout.BOOL, tensorInt32Data},
	10: {"FLOAT16", layout.F16, tensorInt32Data},
	11: {"DOUBLE", layout.F64, tensorDoubleData},
	12: {"UINT32", layout.U32, tensorUint64Data},
	13: {"UINT64", layout.U64, tensorUint64Data},
	14: {"COMPLEX64", layout.C64, tensorFloatData},
	15: {"COMPLEX128", layout.C128, tensorDoubleData},
	16: {"BFLOAT16", layout.BF16, tensorInt32Data},
	17: {"FLOAT8E4M3FN", layout.F8_E4M3, tensorInt32Data},
	18: {"FLOAT8E4M3FNUZ", layout.F8_E4M3FNUZ, tensorInt32Data},
	19: {"FLOAT8E5M2", layout.F8_E5M2, tensorInt32Data},
	20: {"FLOAT8E5M2FNUZ", layout.F8_E5M2FNUZ, tensorInt32Data},
	21: {"UINT4", layout.Invalid, 0},
	22: {"INT4", layout.Invalid, 0},
	23: {"FLOAT4E2M1", layout.Invalid, 0},
	24: {"FLOAT8E8M0", layout.F8_E8M0, tensorInt32Data},
	25: {"UINT2", layout.Invalid, 0},
	26: {"INT2", layout.Invalid, 0},
	27: {"FLOAT6E2M3", layout.Invalid, 0},
	28: {"FLOAT6E3M2", layout.Invalid, 0},
}

// fieldOf returns the field of a TensorProto that holds elements of type d as numbers.
func fieldOf(d layout.DType) protowire.Number {
	for _, t := range dataTypes {
		if t.dtype == d {
			return t.field
		}
	}
	return 0
}

// errorf returns the error that the field at offset at of a file breaks a rule.
func errorf(at uint64, field string, sentinel error, format string, args ...any) *layout.FormatError {
	return layout.Errorf(layout.April, at, field, sentinel, format, args...)
}
