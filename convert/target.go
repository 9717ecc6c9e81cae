package convert

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
)

// A target writes one format. Its code is in the files named for it.
type target interface {
	limits() *limits
	// divide decides which tensors go into which file, and checks all that will be written.
	divide(p *Plan) error
	// writer begins to write one file to dst.
	writer(p *Plan, dst io.Writer, s *part) (fileWriter, error)
	// manifest returns what writes the file that leads to the shards. It is nil if each of them leads to the others.
	manifest(p *Plan) func(w *bufio.Writer) error
}

var targets = map[layout.Format]target{layout.APR2: apr2Target{}, layout.SafeTensors: safeTensorsTarget{}, layout.GGUF: ggufTarget{}}

// CanWrite reports whether models can be written in format f.
func CanWrite(f layout.Format) bool { return targets[f] != nil }

// bySuffix returns the format that the name of a new file asks for.
func bySuffix(path string) layout.Format {
	for f := range targets {
		if strings.EqualFold(filepath.Ext(path), formats.Suffix(f)) {
			return f
		}
	}
	return layout.Unknown
}

// limits says what tensors of a format can be.
type limits struct {
	name    string
	holds   func(layout.DType) bool
	scales  bool // of tensors of integers
	dims    int  // the most dimensions of a tensor
	scalars bool // tensors without dimensions
	digests bool // of shards, in the manifest
	// integers maps sizes in bytes to the types that keep the bits of others: unsigned ones if nil.
	integers map[int]layout.DType
	// weights reports that readers take all tensors for weights. Quantized weights are then written by
	// their values, and floats of a type that the format lacks become F32. No code passes for a
	// number.
	weights bool
}

// canHave reports whether tensors may be re-encoded to d.
func (l *limits) canHave(d layout.DType) bool { return l.holds(d) && (d != layout.I8 || l.scales) }
