package aprender

import (
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/flags"
)

// Format describes the files with a 64-byte header.
var Format = layout.FileFormat{Name: layout.APR2, Suffix: ".apr", Matches: matches, Decode: layout.AsDecoder(Decode)}

const (
	magicAPR2 = "APR2"
	magicZero = "APR\x00"
	zstdMagic = "\x28\xb5\x2f\xfd"
	major     = 2

	headerSize   = 64
	minEntrySize = 20 // an entry without name and dims
	maxDims      = 8
	maxName      = 256
	maxMetadata  = 16 << 20
	footerSize   = 4
	align        = 64
)

// Offsets of the header's fields.
const (
	atMajor          = 4
	atFlags          = 6
	atCount          = 8
	atMetadataOffset = 12
	atMetadataSize   = 20
	atIndexOffset    = 24
	atDataOffset     = 32
	atChecksum       = 40
	atReserved       = 44
)

var le = binary.LittleEndian

// Header is the 64-byte header, without the magic and the 20 reserved bytes at its end. Its fields are in the order of the file.
type Header struct {
	Major, Minor   uint8
	Flags          Flags
	TensorCount    uint32
	MetadataOffset uint64
	MetadataSize   uint32 // bytes
	IndexOffset    uint64
	DataOffset     uint64 // tensor offsets count from here
	// Checksum is the CRC32 of the header without these four bytes. It is 0 if the
	// writer left it out.
	Checksum uint32
}

// checksum returns the CRC32 that the header should state, over all of it but the checksum.
func checksum(head []byte) uint32 {
	crc := crc32.ChecksumIEEE(head[:atChecksum])
	return crc32.Update(crc, crc32.IEEETable, head[atChecksum+4:headerSize])
}

// hasHeader recognises a 64-byte header by its checksum.
func hasHeader(head []byte) bool {
	return len(head) >= headerSize && checksum(head) == le.Uint32(head[atChecksum:])
}

// resemblesHeader recognises a 64-byte header whose checksum is wrong or missing: version 2.0,
// and metadata right behind the header. In the draft's header this would be an empty
// metadata section. No writer of the late APR1 comes near it.
func resemblesHeader(head []byte) bool {
	return len(head) >= headerSize && le.Uint16(head[atMajor:]) == major && le.Uint64(head[atMetadataOffset:]) == headerSize
}

// matches accepts the 64-byte header and aprender's compressed containers, which Decode refuses by
// name. The late APR1 and files of the draft are other packages'.
func matches(in layout.Input, head []byte) bool {
	text := string(head)
	switch {
	case !strings.HasPrefix(text, magicAPR2) && !strings.HasPrefix(text, magicZero):
		return false
	case hasHeader(head):
		return true
	case strings.HasPrefix(text, magicZero):
		return resemblesHeader(head) || containerName(head) != "" || len(head) > 5 && head[4] == major && head[5] != 0
	case resemblesHeader(head):
		return !(sectionsOfDraft(head, in.Size()) && footerOfDraft(in))
	}
	return containerName(head) != "" && !sectionsOfDraft(head, in.Size())
}

// containerName names the compressed container that head starts, or returns "".
func containerName(head []byte) string {
	switch {
	case len(head) > 4 && head[4] == 1:
		return "aprender's JSON container compressed by LZ4, which is not supported"
	case len(head) > 12 && head[4] == 2 && string(head[9:13]) == zstdMagic:
		return "aprender's JSON container compressed by zstd, which is not supported"
	}
	return ""
}

// sectionsOfDraft reports whether head, read as the draft's header, names sections within size bytes.
func sectionsOfDraft(head []byte, size uint64) bool {
	const metadata, index = 12, 20
	within := func(at int) bool {
		return layout.Within(uint64(le.Uint32(head[at:])), uint64(le.Uint32(head[at+4:])), size)
	}
	return len(head) >= index+8 && le.Uint16(head[atMajor:]) == major && within(metadata) && within(index)
}

// footerOfDraft reports whether the file ends with the draft's footer of 16 bytes.
func footerOfDraft(in layout.Input) bool {
	b, err := in.Slice(in.Size()-16, 16)
	return err == nil && string(b[4:8]) == "2RPA"
}

// Flags are the feature flags of the header, by aprender's names.
type Flags uint16

// The flags that matter for reading; see flagNames for all.
const (
	LZ4Compressed  Flags = 1 << 0
	ZstdCompressed Flags = 1 << 1
	Encrypted      Flags = 1 << 2
	Signed         Flags = 1 << 3
	Sharded        Flags = 1 << 4
	ColumnMajor    Flags = 1 << 11

	refused    = Encrypted | Sharded | ColumnMajor
	compressed = LZ4Compressed | ZstdCompressed
)

var flagNames = []string{
	"LZ4_COMPRESSED", "ZSTD_COMPRESSED", "ENCRYPTED", "SIGNED", "SHARDED", "QUANTIZED", "HAS_FILTERBANK",
	"HAS_MODEL_CARD", "STREAMING", "HAS_VOCAB", "LAYOUT_ROW_MAJOR", "LAYOUT_COLUMN_MAJOR",
}

// Names returns aprender's names of the bits that are set, lowest bit first.
func (f Flags) Names() []string { return flags.Names(uint32(f), flagNames) }

// String joins Names by "|", with the bits that have no name in hexadecimal.
func (f Flags) String() string { return flags.Join(uint32(f), flagNames) }

// errorf returns the error that the field at offset at of a file breaks a rule.
func errorf(at uint64, field string, sentinel error, format string, args ...any) *layout.FormatError {
	return layout.Errorf(layout.APR2, at, field, sentinel, format, args...)
}
