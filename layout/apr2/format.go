package apr2

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/flags"
)

// Format describes the files of the draft.
var Format = layout.FileFormat{Name: layout.APR2, Suffix: ".apr", Matches: layout.Magic(0, magic), Decode: layout.AsDecoder(Decode)}

const (
	magic    = "APR2"
	magicEnd = "2RPA"
	major    = 2

	headerSize      = 32
	indexHeaderSize = 8
	entrySize       = 32 // an entry without its name and dims
	minEntrySize    = entrySize + 8
	footerSize      = 16

	defaultAlign = 64
)

// MaxDims is the most dimensions that a tensor can have.
const MaxDims = 8

// Offsets of the header's fields.
const (
	atMajor          = 4
	atFlags          = 8
	atMetadataOffset = 12
	atMetadataSize   = 16
	atIndexOffset    = 20
	atIndexSize      = 24
	atDataOffset     = 28
)

var le = binary.LittleEndian

// Header is the first 32 bytes of a file, without the magic. Its fields are in the order of the file.
type Header struct {
	Major, Minor   uint16
	Flags          Flags
	MetadataOffset uint32
	MetadataSize   uint32 // bytes
	IndexOffset    uint32
	IndexSize      uint32 // bytes
	DataOffset     uint32 // tensor offsets count from here
}

// readHeader reads the header that b begins with.
func readHeader(b []byte) (h Header) {
	binary.Decode(b[len(magic):headerSize], le, &h) // which has that size
	return h
}

// appendHeader appends the magic and h to b.
func appendHeader(b []byte, h Header) []byte {
	b, _ = binary.Append(append(b, magic...), le, h) // it is of fixed size
	return b
}

// Flags are the feature flags of the header.
type Flags uint32

// The flags of the draft; other bits mean nothing.
const (
	Compressed Flags = 1 << iota // some tensor is compressed by LZ4
	Aligned64                    // tensors are aligned to 64 bytes
	Aligned32                    // tensors are aligned to 32 bytes, as in GGUF
	Sharded                      // one file of several
	Encrypted                    // AES-256-GCM; the layout is ours
	Signed                       // Ed25519; the layout is ours
	Quantized                    // some tensor is stored in quantized blocks
	Streaming                    // laid out for streaming
)

var flagNames = []string{
	"COMPRESSED", "ALIGNED_64", "ALIGNED_32", "SHARDED", "ENCRYPTED", "SIGNED", "QUANTIZED", "STREAMING",
}

// Has reports whether all bits of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Names returns the draft's names of the bits that are set, lowest bit first.
func (f Flags) Names() []string { return flags.Names(uint32(f), flagNames) }

// String joins Names by "|", with the bits that have no name in hexadecimal.
func (f Flags) String() string { return flags.Join(uint32(f), flagNames) }

// Align returns the alignment of tensors in bytes: 32 if only ALIGNED_32 is set, else 64.
func (f Flags) Align() uint64 {
	if f&(Aligned64|Aligned32) == Aligned32 {
		return 32
	}
	return defaultAlign
}

// Bounds of the ids that later minor versions add to the draft's enum.
const (
	firstExtension = 0x20 // ids from here on need version_minor 1
	firstGGML      = 0x40 // 0x40 | ggml's type id
	lastGGML       = 0x7f
)

var enum = [firstGGML]layout.DType{
	0: layout.F32, 1: layout.F16, 2: layout.BF16,
	3: layout.I8, 4: layout.I16, 5: layout.I32, 6: layout.I64, 7: layout.U8,
	16: layout.Q8_0, 17: layout.Q4_0, 18: layout.Q4_1, 19: layout.Q5_0, 20: layout.Q5_1,

	0x20: layout.F64, 0x21: layout.U16, 0x22: layout.U32, 0x23: layout.U64, 0x24: layout.BOOL,
	0x25: layout.F8_E4M3, 0x26: layout.F8_E5M2,
}

// dtypeOf and idOf are enum and ggml's types in both directions. A type has one id: ggml's
// only if enum has none.
var dtypeOf, idOf = func() (dtypes [256]layout.DType, ids map[layout.DType]uint8) {
	ids = make(map[layout.DType]uint8)
	for id := range lastGGML + 1 {
		d, ok := layout.FromGGML(uint32(id - firstGGML))
		if id < firstGGML {
			d, ok = enum[id], enum[id] != layout.Invalid
		}
		if _, taken := ids[d]; ok && !taken {
			dtypes[id], ids[d] = d, uint8(id)
		}
	}
	return dtypes, ids
}()

// dtype returns the type that id means in a file of the given minor version, or Invalid.
func dtype(id uint8, minor uint16) layout.DType {
	if id >= firstExtension && minor == 0 {
		return layout.Invalid
	}
	return dtypeOf[id]
}

// Holds reports whether the format has an id for d.
func Holds(d layout.DType) bool {
	_, ok := idOf[d]
	return ok
}

// errorf returns the error that the field at offset at of a file breaks a rule.
func errorf(at uint64, field string, sentinel error, format string, args ...any) *layout.FormatError {
	return layout.Errorf(layout.APR2, at, field, sentinel, format, args...)
}
