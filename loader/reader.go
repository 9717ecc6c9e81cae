package loader

import (
	"context"
	"errors"
	"io"
)

// Namer is a reader that knows what errors call its file. The part after the last slash is the
// file's name beside others, which a part of a GGUF split needs.
type Namer interface {
	Name() string
}

// ContextReaderAt is a reader whose reads end with a context.
type ContextReaderAt interface {
	io.ReaderAt
	// ReadAtContext does what ReadAt does, until ctx ends.
	ReadAtContext(ctx context.Context, p []byte, off int64) (n int, err error)
}

// VectorReaderAt is a reader that fills several buffers at once: neighbouring tensors in one
// request.
type VectorReaderAt interface {
	io.ReaderAt
	// ReadVector fills all of bufs with the bytes from off on, one behind the other.
	ReadVector(ctx context.Context, bufs [][]byte, off int64) error
}

// SiblingOpener is a reader of one file among others, such as a shard of a model.
type SiblingOpener interface {
	io.ReaderAt
	// OpenSibling opens the file of a plain name beside this one. A model that opened it closes
	// the reader, if that has a Close.
	OpenSibling(ctx context.Context, name string) (r io.ReaderAt, size int64, err error)
}

// anonymous is what errors call the file of a reader without a name.
const anonymous = "reader"

func readerName(r io.ReaderAt) string {
	if r, ok := r.(Namer); ok {
		return r.Name()
	}
	return anonymous
}

// input is a reader of the file called name, whose reads end with ctx as far as they
// can be ended.
type input struct {
	ctx  context.Context
	name string
	r    io.ReaderAt
}

// Name returns what errors of a mapping of it call the file.
func (in input) Name() string { return in.name }

// Underlying lets mmapio know a file of this system.
func (in input) Underlying() io.ReaderAt { return in.r }

// ReadAt reads until ctx ends.
func (in input) ReadAt(p []byte, off int64) (n int, err error) {
	if r, ok := in.r.(ContextReaderAt); ok {
		n, err = r.ReadAtContext(in.ctx, p, off)
		if why := context.Cause(in.ctx); err != nil && why != nil && !errors.Is(err, why) {
			err = why
		}
		return n, err
	}
	if err := context.Cause(in.ctx); err != nil {
		return 0, err
	}
	return in.r.ReadAt(p, off)
}
