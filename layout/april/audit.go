package april

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums lists none: the format has no checksums.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit fails networks that are no ONNX models, metadata that cannot be read, and
// initializers with too few or too many numbers. It reads all three. It
// warns of whatever other readers trip over or leave out: a wrong header_size,
// parameters that are not behind the last network, sparse initializers, and
// bytes that belong to nothing.
func (f *File) Audit(in layout.Input) []layout.Finding {
	found := findings.New(layout.April)
	h := &f.Header
	if is := h.end - atHeader; h.HeaderSize != is {
		found.Warn(atHeaderSize, "header_size", layout.ErrInvalid, "%d, but the header has %d bytes", h.HeaderSize, is)
	}
	if last := h.Networks[len(h.Networks)-1].end(); h.Params.Offset != last {
		found.Warn(h.atParams, "params", layout.ErrInvalid, "at %d, but readers that ignore this look for them behind the last network, at %d",
			h.Params.Offset, last)
	}
	for i := range f.Networks {
		n := &f.Networks[i]
		found.Fail(n.Err)
		if n.Sparse > 0 {
			found.Warn(n.atSparse, "sparse_initializer", layout.ErrUnsupported, "%s has %d, which are not among the tensors", n.Role, n.Sparse)
		}
	}
	_, err := f.readTexts(in)
	found.Fail(err)
	p, err := f.readParams(in)
	found.Fail(err)
	if err == nil && h.Params.end() > p.end {
		found.Warn(p.end, "params", layout.ErrInvalid, "%d bytes are left behind the last token", h.Params.end()-p.end)
	}
	for i := range f.index.Tensors {
		if t := &f.index.Tensors[i]; t.Encoding == layout.Protobuf {
			found.Fail(f.unpack(in, t, nil))
		}
	}
	end := found.Gaps(f.index, 1)
	if size := f.index.Size; size > end {
		found.Warn(end, "trailing", layout.ErrInvalid, "%d bytes behind all that the header names", size-end)
	}
	return found.All()
}
