package april

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// Checksums lists none: the format has no checksums.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit finds networks that are no ONNX models, metadata that cannot be read, and
// initializers whose numbers do not add up to their shapes, all of which it reads. It
// warns of what other readers trip over or leave out: a header_size that is not the
// header's, parameters that are not behind the last network, sparse initializers, and
// bytes that belong to nothing.
func (f *File) Audit(in layout.Input) []layout.Finding {
	a := audit{file: f}
	a.header()
	a.networks()
	a.metadata(in)
	a.numbers(in)
	a.gaps()
	return a.findings
}

type audit struct {
	file     *File
	findings []layout.Finding
}

func (a *audit) fail(err error) {
	var fe *layout.FormatError
	if errors.As(err, &fe) { // as all errors of this package about a file are
		a.findings = append(a.findings, layout.Finding{FormatError: fe})
	}
}

func (a *audit) warn(at uint64, field string, sentinel error, format string, args ...any) {
	a.findings = append(a.findings, layout.Finding{FormatError: errorf(at, field, sentinel, format, args...), Warning: true})
}

func (a *audit) header() {
	h := &a.file.Header
	if is := h.end - atHeader; h.HeaderSize != is {
		a.warn(atHeaderSize, "header_size", layout.ErrInvalid, "%d, but the header has %d bytes", h.HeaderSize, is)
	}
	if last := h.Networks[len(h.Networks)-1].end(); h.Params.Offset != last {
		a.warn(h.atParams, "params", layout.ErrInvalid, "at %d, but readers that ignore this look for them behind the last network, at %d",
			h.Params.Offset, last)
	}
}

func (a *audit) networks() {
	for i := range a.file.Networks {
		n := &a.file.Networks[i]
		a.fail(n.Err)
		if n.Sparse > 0 {
			a.warn(n.atSparse, "sparse_initializer", layout.ErrUnsupported, "%s has %d, which are not among the tensors", n.Role, n.Sparse)
		}
	}
}

func (a *audit) metadata(in layout.Input) {
	_, err := a.file.texts(in)
	a.fail(err)
	p, err := a.file.params(in)
	if err != nil {
		a.fail(err)
		return
	}
	if left := a.file.Header.Params.end() - p.end; left > 0 {
		a.warn(p.end, "params", layout.ErrInvalid, "%d bytes are left behind the last token", left)
	}
}

func (a *audit) numbers(in layout.Input) {
	var u unpacker // one for all, of which there can be very many
	tensors := a.file.index.Tensors
	for i := range tensors {
		if t := &tensors[i]; t.Encoding == layout.Protobuf {
			a.fail(u.unpack(in, a.file.lim, t, func([]byte) {}))
		}
	}
}

// gaps warns of bytes that belong to nothing.
func (a *audit) gaps() {
	end := uint64(0)
	for _, e := range a.parts() {
		if e.Offset > end {
			a.warn(end, "padding", layout.ErrInvalid, "%d bytes belong to no section and no network", e.Offset-end)
		}
		end = e.end()
	}
	if size := a.file.index.Size; size > end {
		a.warn(end, "trailing", layout.ErrInvalid, "%d bytes behind all that the header names", size-end)
	}
}

// parts are the parts of the file in the order of their offsets. They do not overlap.
func (a *audit) parts() []Entry {
	h := &a.file.Header
	parts := append([]Entry{{0, h.end}, h.Params}, h.Networks...)
	parts = slices.DeleteFunc(parts, func(e Entry) bool { return e.Size == 0 })
	slices.SortFunc(parts, func(x, y Entry) int { return cmp.Compare(x.Offset, y.Offset) })
	return parts
}
