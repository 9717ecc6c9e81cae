package apr2

import (
	"github.com/tensormap/tensormap/layout"
)

// dialect is a layout that Decode reads.
type dialect uint8

const (
	draft    dialect = iota // APR-FORMAT-002
	header64                // with a 64-byte header, as aprender ships it
)

// The other layouts that start with "APR2" or "APR\x00". All are aprender's, the project
// that published the draft.
const (
	jsonLZ4  = "aprender's JSON container compressed by LZ4, which is not supported"
	jsonZstd = "aprender's JSON container compressed by zstd, which is not supported"
	lateAPR1 = "aprender's late APR1, which is not decoded here"

	magicZero = "APR\x00"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// identify tells the dialects apart by head, the first bytes of the file, at most
// header64Size of them. Where head starts none that can be read, the error names what it is.
func identify(in layout.Input, head []byte) (dialect, error) {
	if len(head) < headerSize {
		return 0, errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", in.Size(), headerSize)
	}
	is := string(head[:4])
	if is != magic && is != magicZero {
		return 0, errorf(0, "magic", layout.ErrFormat, "%q, not %q", is, magic)
	}
	if hasHeader64(head) {
		return header64, nil
	}
	plausible := is == magic && le.Uint16(head[atMajor:]) == major && readHeader(head).within(in.Size())
	if resemblesHeader64(head) && !(plausible && endsAsDraft(in)) {
		return header64, checkUnsummed(head)
	}
	if plausible {
		return draft, nil
	}
	return draft, refuse(head)
}

// refuse names the layout of a file that neither dialect's structure fits. A damaged file of
// the draft is not refused: decoding it says what is wrong.
func refuse(head []byte) error {
	is, version := string(head[:4]), le.Uint16(head[atMajor:])
	switch {
	case head[4] == 1:
		return errorf(0, "magic", layout.ErrUnsupported, jsonLZ4)
	case head[4] == 2 && string(head[9:13]) == zstdMagic:
		return errorf(0, "magic", layout.ErrUnsupported, jsonZstd)
	case is == magicZero && version == 2:
		return errorf(0, "magic", layout.ErrUnsupported, lateAPR1)
	case is == magicZero:
		return errorf(0, "magic", layout.ErrFormat, "%q, which starts no layout that is known", is)
	case version != major:
		return errorf(atMajor, "version_major", layout.ErrUnsupported, "%d, not %d", version, major)
	}
	return nil
}

// endsAsDraft reports whether the file has the draft's footer.
func endsAsDraft(in layout.Input) bool {
	size := in.Size()
	if size < headerSize+footerSize {
		return false
	}
	b, err := in.Slice(size-footerSize, footerSize)
	return err == nil && string(b[4:8]) == magicEnd
}
