package layouttest

import (
	"bytes"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
)

// Recorder is an Input that records what is read. It returns copies, as one of a remote file
// does.
type Recorder struct {
	layout.Input
	Reads []layout.Section // without names
}

// Slice records the read, also one that fails.
func (r *Recorder) Slice(off, n uint64) ([]byte, error) {
	r.Reads = append(r.Reads, layout.Section{Offset: off, Size: n})
	b, err := r.Input.Slice(off, n)
	return bytes.Clone(b), err
}

// Total returns the number of bytes asked for.
func (r *Recorder) Total() (n uint64) {
	for _, s := range r.Reads {
		n += s.Size
	}
	return n
}

// Failing is a file that cannot be read from some offset on.
type Failing struct {
	layout.Bytes
	From uint64
}

// Slice fails with iofault.ErrDisk if it would reach beyond From.
func (f Failing) Slice(off, n uint64) ([]byte, error) {
	if off+n > f.From {
		return nil, iofault.ErrDisk
	}
	return f.Bytes.Slice(off, n)
}

// Sparse is a large file that has only its ends.
type Sparse struct {
	Head, Tail layout.Bytes
	Whole      uint64 // bytes of the file
}

// Size returns the size of the whole file.
func (s Sparse) Size() uint64 { return s.Whole }

// Slice reads from one of the ends.
func (s Sparse) Slice(off, n uint64) ([]byte, error) {
	if at := s.Whole - s.Tail.Size(); off >= at {
		return s.Tail.Slice(off-at, n)
	}
	return s.Head.Slice(off, n)
}
