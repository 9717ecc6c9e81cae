package apr1

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/flags"
)

// Format describes APR1 files. Package aprender has recognised its own files by then: they share
// magic and version with the container Binary2.
var Format = layout.FileFormat{Name: layout.APR1, Suffix: ".apr", Matches: matches, Decode: layout.AsDecoder(Decode)}

// matches reports whether head, the first bytes of a file, has one of the magics and the version that goes with it.
func matches(_ layout.Input, head []byte) bool {
	return layout.HasMagic(head, 0, magic) || layout.HasMagic(head, 0, magic2+"\x02\x00")
}

const (
	magic  = "APR1"
	magic2 = "APR\x00"

	headSize   = 52 // magic and header
	head2Size  = 68 // the same and 16 bytes of zero
	entrySize  = 96
	nameSize   = 48 // with the NUL that ends a name
	maxDims    = 4
	crcSize    = 4
	sizeSize   = 4 // of the u32 that starts a section
	countsSize = 8 // n_tokens and n_merges, or n_mels and n_freqs
)

// Offsets of fields in the file.
const (
	atVersion      = 4
	atQuantization = 7
	atCompressed   = 8
	atTensors      = 9
	atDimensions   = 12
	atReserved2    = 52
)

// Offsets of fields in an index entry.
const (
	inOffset   = 48
	inSize     = 56
	inElements = 64
	inShape    = 72
	inDims     = 88
)

var le = binary.LittleEndian

// Container is one of the layouts that call themselves APR1.
type Container uint8

// The containers; the package documentation describes them.
const (
	Binary  Container = iota // of the specification
	Binary2                  // the same with 16 more bytes of header
	JSON                     // of the aprender library
)

// Header is the 48 bytes behind the magic of the containers Binary and Binary2. Its fields are in the order of the file.
type Header struct {
	Version      uint16
	ModelType    ModelType
	Quantization Quantization
	Compressed   bool
	Tensors      uint16
	Flags        Flags
	Dimensions   Dimensions
}

// Dimensions are the hyperparameters of a Whisper model, in the order of the header.
type Dimensions [len(dimensionNames)]uint32

var dimensionNames = [...]string{
	"n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
	"n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels",
}

// ModelType is the kind of Whisper model. The specification lists the first three; the
// others are as in the program that wrote the format.
type ModelType uint8

var modelTypes = [...]string{
	"tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "medium.en",
	"large", "large-v1", "large-v2", "large-v3", "large-v3-turbo",
}

// String returns the name under which Whisper models are published, such as "tiny.en".
func (t ModelType) String() string { return flags.Constant("ModelType", modelTypes[:], uint8(t)) }

// Quantization is the element type of all tensors of a file.
type Quantization uint8

// Int8 is the quantization with a scale for each tensor.
const Int8 Quantization = 2

// The quantizations, and the types of their elements. int4 (3) is none of them: whisper.apr declares it but never wrote it.
var (
	quantizations = [...]string{"f32", "f16", "int8"}
	elementTypes  = [...]layout.DType{layout.F32, layout.F16, layout.I8}
)

// String returns the specification's name, such as "int8".
func (q Quantization) String() string {
	return flags.Constant("Quantization", quantizations[:], uint8(q))
}

// Flags say which optional sections a file has. Other bits mean nothing.
type Flags uint8

// The flags.
const (
	HasVocab Flags = 1 << iota
	HasFilterbank
)

var flagNames = []string{"has_vocab", "has_filterbank"}

// Has reports whether all bits of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Names returns the specification's names of the bits that are set, lowest bit first.
func (f Flags) Names() []string { return flags.Names(uint32(f), flagNames) }

// errorf returns the error that the field at offset at of a file breaks a rule.
func errorf(at uint64, field string, sentinel error, format string, args ...any) *layout.FormatError {
	return layout.Errorf(layout.APR1, at, field, sentinel, format, args...)
}
