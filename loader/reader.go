package loader

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/tensormap/tensormap/mmapio"
)

// Namer is a reader that knows what errors call its file. The part after the last slash is the
// file's name beside others, which a part of a GGUF split needs.
type Namer = mmapio.Namer

// ContextReaderAt is a reader whose reads end with a context.
type ContextReaderAt = mmapio.ContextReaderAt

// BackedReaderAt is a reader that keeps what it reads in a file of this system. The model maps the file:
// once bytes are there, tensors are views of them.
type BackedReaderAt interface {
	ContextReaderAt
	// Backing returns the file, which has its final size, or nil if there is none. It stays the reader's.
	Backing() *os.File
	// Bring writes the n bytes at off to the file, unless they are there. It reports false if the file
	// cannot hold them. The model then reads through ReadAtContext.
	Bring(ctx context.Context, off, n uint64) (kept bool, err error)
	// Has reports whether the n bytes at off are in the file, so that Bring has nothing to wait for. It is false
	// without a file.
	Has(off, n uint64) bool
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

// VerifiedKeeper is a reader that keeps what it fetches, such as one with a cache on disk. A model with
// Options.Trust makes it keep nothing that is not verified.
type VerifiedKeeper interface {
	io.ReaderAt
	// KeepVerified is called before the first read, with nil: what is fetched from now on is not
	// kept. It is called again once the trusted digests are known. From then on the reader
	// fetches by way of verify, which reads whole chunks from source and hands out
	// parts of them. ctx bounds what KeepVerified itself fetches.
	KeepVerified(ctx context.Context, verify func(source ContextReaderAt) ContextReaderAt)
}

// anonymous is what errors call the file of a reader without a name.
const anonymous = "reader"

func readerName(r io.ReaderAt) string {
	if r, ok := r.(Namer); ok {
		return r.Name()
	}
	return anonymous
}

// far reports whether r is a reader of the caller's that may bring its bytes over a network.
func far(r io.ReaderAt) bool {
	switch r.(type) {
	case nil, *os.File:
		return false
	}
	return true
}

// input is a reader of the file called name, whose reads end with a context as far as they
// can be ended.
type input struct {
	name string
	r    io.ReaderAt
}

var _ interface {
	Namer
	ContextReaderAt
	mmapio.Wrapper
} = input{}

// Name returns what errors of a mapping of it call the file.
func (in input) Name() string { return in.name }

// Underlying lets mmapio know a file of this system.
func (in input) Underlying() io.ReaderAt { return in.r }

// ReadAt reads, however long that takes.
func (in input) ReadAt(p []byte, off int64) (n int, err error) {
	return in.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext reads until ctx ends.
func (in input) ReadAtContext(ctx context.Context, p []byte, off int64) (n int, err error) {
	if r, ok := in.r.(ContextReaderAt); ok {
		n, err = r.ReadAtContext(ctx, p, off)
		return n, endedBy(ctx, err)
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return in.r.ReadAt(p, off)
}

// joined returns ctx, ended by other too, and a function to be called afterwards.
func joined(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// endedBy returns err, or why ctx has ended in its place.
func endedBy(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && why != nil && !errors.Is(err, why) {
		return why
	}
	return err
}
