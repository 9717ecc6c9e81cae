package loader

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// source is where the files of a sharded model are, beside the one that it was opened by: a
// directory, or a place on a network. Its methods may be called concurrently.
type source interface {
	// open finds the file of a plain name. A link is followed out of the source only where
	// follow is true. The error names the file.
	open(name string, follow bool) (*stored, error)
	// close lets go of what the source has kept open. The mappings of its files are closed
	// by then.
	close() error
}

// stored is a file of a source.
type stored struct {
	path string
	// data is the file's bytes for the life of the model. It costs nothing until it is
	// touched.
	data *mmapio.Mapping
	// index reads the same bytes, and of those only what is asked for. It serves until done.
	index layout.Input
	done  func()
	// reader is where data reads from, where that is a reader of the caller's; else nil.
	reader io.ReaderAt
	origin
}

// origin is where a file came from: what it was when it was opened, and what its name leads to
// now. The zero value knows neither, as of memory and of readers.
type origin struct {
	opened mmapio.Identity
	stat   func() (fs.FileInfo, error)
}

// inMemory is a file whose index is read where its data is.
func inMemory(path string, mapping *mmapio.Mapping) *stored {
	return &stored{path: path, data: mapping, index: mapping, done: func() {}, origin: originOf(path, mapping)}
}

// close is for a file that turns out not to be wanted.
func (s *stored) close() {
	s.done()
	s.data.Close()
}

// nowhere is the source of a model in memory.
type nowhere struct{}

func (nowhere) open(name string, _ bool) (*stored, error) {
	return nil, fmt.Errorf("%w: the model is in memory, which has no file %q beside it: open it by its path", ErrUnsupported, name)
}

func (nowhere) close() error { return nil }
