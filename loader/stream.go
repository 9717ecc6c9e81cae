package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tensormap/tensormap/mmapio"
)

// OpenReaderAt reads the index of a model of size bytes that r reads: of a file on another
// machine, such as a [github.com/tensormap/tensormap/loader/httprange.Reader], in an
// archive, in an encrypted volume. Nothing is read that is not asked for: opening reads the
// header and the index, [Model.Metadata] the metadata, and methods of a tensor its bytes,
// of a part of the tensor that part. [Model.Prefetch] loads several tensors at once into the
// model's cache, whose size is Options.CacheBytes.
//
// ctx bounds what opening reads. r is read concurrently, must stay open until Close, and is
// not closed by it. Four further methods of r are used where it has them:
//
//	Name() string
//	ReadAtContext(ctx context.Context, p []byte, off int64) (n int, err error)
//	ReadVector(ctx context.Context, bufs [][]byte, off int64) error
//	OpenSibling(ctx context.Context, name string) (r io.ReaderAt, size int64, err error)
//
// Name is what errors call the file; what follows the last slash is its name beside others,
// which a part of a GGUF split needs. ReadAtContext is ReadAt that ends with ctx. ReadVector
// fills bufs with the bytes from off on: neighbouring tensors in one request. OpenSibling
// opens the file of a plain name beside this one, which a model in several files needs, and
// which the model closes if it has a Close.
//
// A method that failed because bytes could not be had tries again when it is next called. Close
// ends the reads that run outside of leases, whose methods answer ErrClosed, and the release of
// the last lease those that are left.
func OpenReaderAt(ctx context.Context, r io.ReaderAt, size int64, opts *Options) (*Model, error) {
	if size < 0 {
		return nil, badSize(readerName(r), size)
	}
	place := &remote{ctx: ctx, beside: r}
	place.life, place.end = context.WithCancelCause(context.Background())
	return newModel(place.store(readerName(r), r, size), place, opts.withDefaults())
}

func badSize(name string, size int64) error {
	return fmt.Errorf("%s: %w: a size of %d", name, ErrRange, size)
}

// anonymous is what errors call the file of a reader without a name.
const anonymous = "reader"

func readerName(r io.ReaderAt) string {
	if r, ok := r.(interface{ Name() string }); ok {
		return r.Name()
	}
	return anonymous
}

// remote is the place of a reader as a source.
type remote struct {
	ctx    context.Context         // of opening
	life   context.Context         // of all other reads
	end    context.CancelCauseFunc // of life
	beside io.ReaderAt
	opened closers
}

func (p *remote) store(name string, r io.ReaderAt, size int64) *stored {
	return &stored{
		path:   name,
		data:   mmapio.FromReaderAt(input{p.life, name, r}, size),
		index:  mmapio.FromReaderAt(input{p.ctx, name, r}, size),
		done:   func() {},
		reader: r,
	}
}

func (p *remote) open(name string, _ bool) (*stored, error) {
	s, ok := p.beside.(interface {
		OpenSibling(ctx context.Context, name string) (io.ReaderAt, int64, error)
	})
	if !ok {
		return nil, fmt.Errorf("%w: the model needs the file %q, but its reader is for one file", ErrUnsupported, name)
	}
	r, size, err := s.OpenSibling(p.ctx, name)
	if err != nil {
		return nil, &fileError{name, err}
	}
	p.opened.add(r)
	if size < 0 {
		return nil, badSize(name, size)
	}
	if n := readerName(r); n != anonymous {
		name = n
	}
	return p.store(name, r, size), nil
}

func (p *remote) close() error {
	p.end(ErrClosed)
	return p.opened.close()
}

// endReads ends the reads of a model that is closed and has no lease.
func (m *Model) endReads() {
	if p, ok := m.from.(*remote); ok {
		p.end(ErrClosed)
	}
}

// untilClosed returns ctx, ended by endReads too, and a function to be called at the end.
func (m *Model) untilClosed(ctx context.Context) (context.Context, func()) {
	p, ok := m.from.(*remote)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
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

func (in input) ReadAt(p []byte, off int64) (n int, err error) {
	if r, ok := in.r.(interface {
		ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
	}); ok {
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

// during is f, whose reads end with ctx where they are by a reader of the caller's.
func (f *file) during(ctx context.Context) *file {
	if f.reader == nil {
		return f
	}
	bound := *f
	bound.mapping = mmapio.FromReaderAt(input{ctx, f.path, f.reader}, int64(f.mapping.Size()))
	return &bound
}

// closers are readers to be closed, where they can be.
type closers struct {
	mu   sync.Mutex
	list []io.Closer
}

func (c *closers) add(r io.ReaderAt) {
	if r, ok := r.(io.Closer); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, r)
	}
}

func (c *closers) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, r := range c.list {
		errs = append(errs, r.Close())
	}
	c.list = nil
	return errors.Join(errs...)
}
