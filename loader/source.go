package loader

import (
	"context"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/mmapio"
)

// source is the place where the files of a model lie side by side: a directory, or a place on a
// network. Its methods may be called concurrently.
type source interface {
	// open finds the file of a plain name. A link is followed out of the source only if follow
	// is true. ctx bounds what opening reads. The error names the file.
	open(ctx context.Context, name string, follow bool) (*stored, error)
	// until returns ctx, ended by end too, and a function to be called afterwards.
	until(ctx context.Context) (context.Context, func())
	// life is the context of calls that have none of their own. It ends by end, if reads may wait for ever.
	life() context.Context
	// end ends the reads under way that may wait for ever.
	end()
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
	// index reads the same bytes, and only those that are asked for. It serves until done.
	index layout.Input
	done  func()
	// reader is the reader of the caller's that data reads from, if it does; else nil.
	reader io.ReaderAt
	// packed reads tensors that are not stored raw, if data fills; else it is nil. One request brings
	// many of their blocks.
	packed *mmapio.Mapping
	// giveUp closes reader, if the model has opened it; else nil.
	giveUp func()
	// head is the start of the file as it was verified, if it was; else nil. Nothing of it is read again: the
	// file, or who sends it, may say something else by then.
	head []byte
	origin
	verification *verification     // nil without Options.Trust
	cipher       *encrypted.Cipher // of an encrypted file, if Options.Key has the key; else nil
}

// keepHead makes head the start of the file for all who read the index or metadata.
func (s *stored) keepHead(head []byte) {
	if len(head) > 0 {
		s.head, s.index = head, &fetched{s.index, 0, head}
	}
}

// close gives up a file that is not wanted.
func (s *stored) close() {
	s.done()
	s.data.Close()
	if s.giveUp != nil {
		s.giveUp()
	}
}

// local is for a source whose reads end by themselves, so that nothing has to end them.
type local struct{}

func (local) until(ctx context.Context) (context.Context, func()) { return ctx, func() {} }
func (local) life() context.Context                               { return context.Background() }
func (local) end()                                                {}

// opened returns a file whose index is read from its data.
func opened(path string, mapping *mmapio.Mapping) *stored {
	return &stored{path: path, data: mapping, index: bound{mapping, context.Background()}, done: func() {}, origin: originOf(path, mapping)}
}

// memory is the source of a model in memory, which is one file.
type memory struct{ local }

func (memory) open(_ context.Context, name string, _ bool) (*stored, error) {
	return nil, aloneError{fmt.Errorf("%w: the model is in memory, which has no file %q beside it: open it by its path", ErrUnsupported, name)}
}

// aloneError means that a source is of one file, whatever lies beside it elsewhere.
type aloneError struct{ error }

func (e aloneError) Unwrap() error { return e.error }

func (memory) close() error { return nil }

// bound is a file for a decoder, whose reads end with ctx.
type bound struct {
	*mmapio.Mapping
	ctx context.Context
}

func (b bound) Slice(off, n uint64) ([]byte, error) { return b.SliceContext(b.ctx, off, n) }

// fetched is a file with the bytes from off on in memory.
type fetched struct {
	layout.Input
	off  uint64
	part []byte
}

func (f *fetched) Slice(off, n uint64) ([]byte, error) {
	if off >= f.off && layout.Within(off-f.off, n, uint64(len(f.part))) {
		return f.part[off-f.off:][:n:n], nil
	}
	return f.Input.Slice(off, n)
}
