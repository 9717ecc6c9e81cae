package apr2

import (
	"hash/crc32"

	"github.com/tensormap/tensormap/layout"
)

// The other layouts that start with "APR2" or "APR\x00". All are aprender's, the project
// that published the draft.
const (
	header64   = "APR2 with aprender's 64-byte header"
	jsonLZ4    = "aprender's JSON container compressed by LZ4"
	jsonZstd   = "aprender's JSON container compressed by zstd"
	lateAPR1   = "aprender's late APR1 with a 64-byte header"
	magicZero  = "APR\x00"
	zstdMagic  = "\x28\xb5\x2f\xfd"
	prefixSize = 64 // bytes that are enough to tell them apart
)

// checkDialect makes sure that head, the first bytes of a file of size bytes, starts
// the draft's layout.
func checkDialect(head []byte, size uint64) error {
	if len(head) < headerSize {
		return errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", size, headerSize)
	}
	is := string(head[:4])
	if is != magic && is != magicZero {
		return errorf(0, "magic", layout.ErrFormat, "%q, not %q", is, magic)
	}
	if name := dialect(head, size); name != "" {
		return errorf(0, "magic", layout.ErrUnsupported, "%s", name)
	}
	if is == magicZero {
		return errorf(0, "magic", layout.ErrFormat, "%q, which starts no layout that is known", is)
	}
	if v := le.Uint16(head[atMajor:]); v != major {
		return errorf(atMajor, "version_major", layout.ErrUnsupported, "%d, not %d", v, major)
	}
	return nil
}

// dialect names the layout of a file that is not the draft's, or is "".
func dialect(head []byte, size uint64) string {
	version := le.Uint16(head[atMajor:])
	switch {
	case hasHeader64(head):
		return header64
	case string(head[:4]) == magic && version == major && readHeader(head).within(size):
		return ""
	case head[4] == 1:
		return jsonLZ4
	case head[4] == 2 && string(head[9:13]) == zstdMagic:
		return jsonZstd
	case string(head[:4]) == magicZero && version == 2:
		return lateAPR1
	}
	return ""
}

// hasHeader64 tells a 64-byte header by its checksum, which covers all of it but itself.
func hasHeader64(head []byte) bool {
	if len(head) < 64 {
		return false
	}
	crc := crc32.ChecksumIEEE(head[:40])
	return crc32.Update(crc, crc32.IEEETable, head[44:64]) == le.Uint32(head[40:])
}
