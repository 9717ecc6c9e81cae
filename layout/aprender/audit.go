package aprender

import (
	"bytes"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns the CRC32 at the end of the file, which covers everything before it. Files
// that end with their last tensor have none.
func (f *File) Checksums(in layout.Input) ([]layout.Checksum, error) {
	if !f.hasFooter() {
		return nil, nil
	}
	return layout.ChecksumAt(in, layout.APR2, f.index.Size-footerSize)
}

// hasFooter reports whether the file ends with a checksum.
func (f *File) hasFooter() bool {
	s := f.index.Sections
	return s[len(s)-1].Name == "footer"
}

// Audit checks the header's flags and checksum, the alignment and order of the tensors and the
// metadata. It fails a missing footer and gaps that are no padding. It does not read tensors.
func (f *File) Audit(in layout.Input) []layout.Finding {
	found := findings.New(layout.APR2)
	h := &f.Header
	if h.Flags&Signed != 0 {
		found.Warn(atFlags, "flags", layout.ErrUnsupported, "%v: the signature is not checked, nothing says where it is", h.Flags)
	}
	if h.Flags&compressed != 0 {
		found.Warn(atFlags, "flags", layout.ErrInvalid, "%v, but nothing is compressed", h.Flags)
	}
	if h.Checksum == 0 {
		found.Warn(atChecksum, "checksum", layout.ErrInvalid, "0: the header has no checksum")
	}
	if !f.hasFooter() {
		found.Fail(errorf(f.index.Size, "crc32", layout.ErrTruncated, "the file ends with its last tensor and has no checksum"))
	}
	found.Misaligned(f.index, findings.Failure)
	if !slices.IsSortedFunc(f.index.Tensors, func(a, b layout.Tensor) int { return bytes.Compare(a.Name, b.Name) }) {
		found.Warn(h.IndexOffset, "name", layout.ErrInvalid, "the index is not sorted by name: aprender's readers refuse such files")
	}
	found.Gaps(f.index, align)
	_, err := f.Metadata(in)
	found.Fail(err)
	return found.All()
}
