package april

import (
	"github.com/tensormap/tensormap/internal/findings"
	"github.com/tensormap/tensormap/layout"
)

// Checksums lists none: the format has no checksums.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit fails networks that are no ONNX models, metadata that cannot be read, and
// initializers with too few or too many numbers. It reads all of these. It
// warns of whatever other readers trip over or leave out: a wrong header_size,
// parameters that are not behind the last network, sparse initializers, and
// bytes that belong to nothing.
func (f *File) Audit(in layout.Input) []layout.Finding {
	a := audit{findings.New(layout.April), f}
	a.header()
	a.networks()
	a.metadata(in)
	a.numbers(in)
	a.gaps()
	return a.All()
}

type audit struct {
	findings.List
	file *File
}

func (a *audit) header() {
	h := &a.file.Header
	if is := h.end - atHeader; h.HeaderSize != is {
		a.Warn(atHeaderSize, "header_size", layout.ErrInvalid, "%d, but the header has %d bytes", h.HeaderSize, is)
	}
	if last := h.Networks[len(h.Networks)-1].end(); h.Params.Offset != last {
		a.Warn(h.atParams, "params", layout.ErrInvalid, "at %d, but readers that ignore this look for them behind the last network, at %d",
			h.Params.Offset, last)
	}
}

func (a *audit) networks() {
	for i := range a.file.Networks {
		n := &a.file.Networks[i]
		a.Fail(n.Err)
		if n.Sparse > 0 {
			a.Warn(n.atSparse, "sparse_initializer", layout.ErrUnsupported, "%s has %d, which are not among the tensors", n.Role, n.Sparse)
		}
	}
}

func (a *audit) metadata(in layout.Input) {
	_, err := a.file.texts(in)
	a.Fail(err)
	p, err := a.file.params(in)
	if err != nil {
		a.Fail(err)
		return
	}
	if left := a.file.Header.Params.end() - p.end; left > 0 {
		a.Warn(p.end, "params", layout.ErrInvalid, "%d bytes are left behind the last token", left)
	}
}

func (a *audit) numbers(in layout.Input) {
	var u unpacker // one for all: there can be very many
	tensors := a.file.index.Tensors
	for i := range tensors {
		if t := &tensors[i]; t.Encoding == layout.Protobuf {
			a.Fail(u.unpack(in, a.file.lim, t, func([]byte) {}))
		}
	}
}

// gaps warns of bytes that belong to nothing.
func (a *audit) gaps() {
	end := a.Gaps(a.file.index, 1)
	if size := a.file.index.Size; size > end {
		a.Warn(end, "trailing", layout.ErrInvalid, "%d bytes behind all that the header names", size-end)
	}
}
