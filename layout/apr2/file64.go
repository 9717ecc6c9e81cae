package apr2

import (
	"bytes"

	"github.com/tensormap/tensormap/layout"
)

// File64 is a decoded file with the 64-byte header. It implements [layout.File].
type File64 struct {
	Header Header64

	index *layout.Index
	lim   layout.Limits
}

var _ layout.File = (*File64)(nil)

// Index describes the file's tensors.
func (f *File64) Index() *layout.Index { return f.index }

// Metadata parses the metadata section. It is empty where metadata_size is 0. aprender's
// writers may repeat keys, of which its readers take the last.
func (f *File64) Metadata(in layout.Input) (layout.Metadata, error) {
	off, n := f.Header.MetadataOffset, uint64(f.Header.MetadataSize)
	if n == 0 {
		return layout.Metadata{}, nil
	}
	if most := min(f.lim.HeaderBytes, maxMetadata64); n > most {
		return nil, errorf(at64MetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", n, most)
	}
	b, err := layout.Region(in, layout.APR2, at64MetadataOffset, "metadata_offset", off, n)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimRight(b, "\x00") // the padding, where metadata_size counts it
	return layout.ParseJSONLastWins(b, layout.APR2, off, "metadata", f.lim)
}

// Checksums is the CRC32 at the end of the file, which covers everything before it; none
// where the file ends with its last tensor.
func (f *File64) Checksums(in layout.Input) ([]layout.Checksum, error) {
	if !f.hasFooter() {
		return nil, nil
	}
	at := f.index.Size - footer64Size
	b, err := layout.Region(in, layout.APR2, at, "crc32", at, footer64Size)
	if err != nil {
		return nil, err
	}
	return []layout.Checksum{{Field: "crc32", At: at, Offset: 0, Size: at, Want: le.Uint32(b)}}, nil
}

func (f *File64) hasFooter() bool {
	s := f.index.Sections
	return s[len(s)-1].Name == "footer"
}

// Audit checks the header's flags and checksum, that there is a checksum of the file (which
// Checksums hands out), the alignment and order of the tensors, the metadata, and that
// nothing but padding lies between what the file describes. It does not read tensors.
func (f *File64) Audit(in layout.Input) []layout.Finding {
	a := newAudit(f.index)
	a.header64(&f.Header)
	if !f.hasFooter() {
		a.Fail(errorf(f.index.Size, "crc32", layout.ErrTruncated, "the file ends with its last tensor and has no checksum"))
	}
	a.alignment(true)
	a.order()
	a.Gaps(f.index, mostPadding+1)
	_, err := f.Metadata(in)
	a.Fail(err)
	return a.All()
}

func (a *audit) header64(h *Header64) {
	if h.Flags&Signed64 != 0 {
		a.Warn(at64Flags, "flags", layout.ErrUnsupported, "%v: the signature is not checked, nothing says where it is", h.Flags)
	}
	if h.Flags&compressed64 != 0 {
		a.Warn(at64Flags, "flags", layout.ErrInvalid, "%v, but nothing is compressed", h.Flags)
	}
	if h.Checksum == 0 {
		a.Warn(at64Checksum, "checksum", layout.ErrInvalid, "0: the header has no checksum")
	}
}

// order warns of an index that aprender's readers refuse because it is not sorted by name.
func (a *audit) order() {
	tensors := a.index.Tensors
	for i := 1; i < len(tensors); i++ {
		if prev, next := tensors[i-1].Name, tensors[i].Name; bytes.Compare(prev, next) > 0 {
			a.Warn(a.index.Sections[2].Offset, "name", layout.ErrInvalid, "the index is not sorted: %s comes after %s", layout.Quote(next), layout.Quote(prev))
			return
		}
	}
}
