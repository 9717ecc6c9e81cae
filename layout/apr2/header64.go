package apr2

import (
	"hash/crc32"

	"github.com/tensormap/tensormap/layout"
)

const (
	header64Size   = 64
	minEntry64Size = 20 // an entry without name and dims
	maxName64      = 256
	maxMetadata64  = 16 << 20
	footer64Size   = 4
	align64        = 64
)

// Where the fields of the 64-byte header are.
const (
	at64Major          = 4
	at64Flags          = 6
	at64Count          = 8
	at64MetadataOffset = 12
	at64MetadataSize   = 20
	at64IndexOffset    = 24
	at64DataOffset     = 32
	at64Checksum       = 40
)

// Header64 is the 64-byte header, without the magic and the 20 reserved bytes at its end.
type Header64 struct {
	Major, Minor   uint8
	Flags          Flags64
	TensorCount    uint32
	MetadataOffset uint64
	MetadataSize   uint32 // bytes
	IndexOffset    uint64
	DataOffset     uint64 // tensor offsets count from here
	// Checksum is the CRC32 of the header without these four bytes. It is 0 where the
	// writer left it out.
	Checksum uint32
}

func readHeader64(b []byte) Header64 {
	b = b[:header64Size]
	return Header64{
		Major:          b[at64Major],
		Minor:          b[at64Major+1],
		Flags:          Flags64(le.Uint16(b[at64Flags:])),
		TensorCount:    le.Uint32(b[at64Count:]),
		MetadataOffset: le.Uint64(b[at64MetadataOffset:]),
		MetadataSize:   le.Uint32(b[at64MetadataSize:]),
		IndexOffset:    le.Uint64(b[at64IndexOffset:]),
		DataOffset:     le.Uint64(b[at64DataOffset:]),
		Checksum:       le.Uint32(b[at64Checksum:]),
	}
}

// hasHeader64 tells a 64-byte header by its checksum, which covers all of it but itself.
func hasHeader64(head []byte) bool {
	return len(head) == header64Size && checksum64(head) == le.Uint32(head[at64Checksum:])
}

func checksum64(head []byte) uint32 {
	crc := crc32.ChecksumIEEE(head[:at64Checksum])
	return crc32.Update(crc, crc32.IEEETable, head[at64Checksum+4:header64Size])
}

// resemblesHeader64 knows a 64-byte header whose checksum is wrong or missing: version 2.0,
// and metadata right behind the header. In the draft's header this would be an empty
// metadata section, and no writer of the late APR1 comes near it.
func resemblesHeader64(head []byte) bool {
	return len(head) == header64Size && le.Uint16(head[at64Major:]) == 2 && le.Uint64(head[at64MetadataOffset:]) == header64Size
}

// checkUnsummed accepts a header that only resembles one, where it has no checksum: realizar,
// aprender's inference engine, wrote such headers in version 0.6.
func checkUnsummed(head []byte) error {
	if sum := le.Uint32(head[at64Checksum:]); sum != 0 {
		return errorf(at64Checksum, "checksum", layout.ErrChecksum, "a 64-byte header with %#08x, but its bytes give %#08x", sum, checksum64(head))
	}
	return nil
}

// Flags64 are the feature flags of the 64-byte header, by aprender's names.
type Flags64 uint16

// The flags that matter for reading; see flag64Names for all.
const (
	LZ4Compressed64  Flags64 = 1 << 0
	ZstdCompressed64 Flags64 = 1 << 1
	Encrypted64      Flags64 = 1 << 2
	Signed64         Flags64 = 1 << 3
	Sharded64        Flags64 = 1 << 4
	ColumnMajor64    Flags64 = 1 << 11

	refused64    = Encrypted64 | Sharded64 | ColumnMajor64
	compressed64 = LZ4Compressed64 | ZstdCompressed64
)

var flag64Names = []string{
	"LZ4_COMPRESSED", "ZSTD_COMPRESSED", "ENCRYPTED", "SIGNED", "SHARDED", "QUANTIZED", "HAS_FILTERBANK",
	"HAS_MODEL_CARD", "STREAMING", "HAS_VOCAB", "LAYOUT_ROW_MAJOR", "LAYOUT_COLUMN_MAJOR",
}

// Names are aprender's names of the bits that are set, lowest bit first.
func (f Flags64) Names() []string { return bitNames(uint32(f), flag64Names) }

// String joins Names by "|", with the bits that have no name in hexadecimal.
func (f Flags64) String() string { return joinBits(uint32(f), flag64Names) }

// check makes sure that the header asks for nothing that is not done here.
func (h *Header64) check() error {
	switch {
	case h.Major != major:
		return errorf(at64Major, "version_major", layout.ErrUnsupported, "%d, not %d", h.Major, major)
	case h.Flags&refused64 != 0:
		return errorf(at64Flags, "flags", layout.ErrUnsupported, "%v, of which %v is not supported", h.Flags, h.Flags&refused64)
	}
	return nil
}

// checkBounds makes sure that what the header names begins in the file.
func (h *Header64) checkBounds(size uint64) error {
	if off, n := h.MetadataOffset, uint64(h.MetadataSize); !layout.Within(off, n, size) {
		return errorf(at64MetadataOffset, "metadata_offset", layout.ErrTruncated, "%d bytes at %d leave the file of %d bytes", n, off, size)
	}
	if h.IndexOffset > size {
		return errorf(at64IndexOffset, "tensor_index_offset", layout.ErrTruncated, "%d is past the end of the file of %d bytes", h.IndexOffset, size)
	}
	if h.DataOffset > size {
		return errorf(at64DataOffset, "data_offset", layout.ErrTruncated, "%d is past the end of the file of %d bytes", h.DataOffset, size)
	}
	return nil
}
