package convert

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
)

// A target is a format to write: what its tensors can be, and how files of it come about. Its code is in the
// files named for it.
type target struct {
	name    string
	holds   func(layout.DType) bool
	scales  bool // of tensors of integers
	dims    int  // the most dimensions of a tensor
	scalars bool // tensors without dimensions
	digests bool // of shards, in the manifest
	// integers maps sizes in bytes to the types that keep the bits of others.
	integers map[int]layout.DType
	// weights reports that readers take all tensors for weights. Quantized weights are then written by
	// their values, and floats of a type that the format lacks become F32. No code passes for a
	// number.
	weights bool

	// divide decides which tensors go into which file, and checks all that will be written.
	divide func(p *Plan) error
	// writer begins to write one file to dst.
	writer func(p *Plan, dst io.Writer, s *part) (fileWriter, error)
	// manifest writes the file that leads to the shards. It is nil if each of them leads to the others.
	manifest func(p *Plan, w *bufio.Writer) error
}

var targets = map[layout.Format]*target{layout.APR2: &apr2Target, layout.SafeTensors: &safeTensorsTarget, layout.GGUF: &ggufTarget}

// unsigned and signed map sizes in bytes to integers.
var (
	unsigned = map[int]layout.DType{1: layout.U8, 2: layout.U16, 4: layout.U32, 8: layout.U64}
	signed   = map[int]layout.DType{1: layout.I8, 2: layout.I16, 4: layout.I32, 8: layout.I64}
)

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

// canHave reports whether tensors may be re-encoded to d.
func (to *target) canHave(d layout.DType) bool { return to.holds(d) && (d != layout.I8 || to.scales) }
