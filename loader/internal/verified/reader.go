package verified

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// mostChunk is the largest chunk that is fetched to memory for a part of it.
const mostChunk = 256 << 20

// keptBytes is how much of what was fetched for parts of it stays in memory, so that neighbours need
// not be fetched again.
const keptBytes = 32 << 20

// Chunks fetches whole chunks of a file for parts of them. It is shared by the Readers of the file.
type Chunks struct {
	file *File
	keep bool // all, for good

	mu    sync.Mutex
	held  map[uint64]*fetched
	order []uint64 // of those held, the longest unused first
	bytes uint64   // that they take
}

type fetched struct {
	ended chan struct{}
	b     []byte
	err   error
}

// NewChunks returns an empty cache of chunks. keep lets it grow to the size of the file.
func NewChunks(f *File, keep bool) *Chunks {
	return &Chunks{file: f, keep: keep, held: make(map[uint64]*fetched)}
}

// Held returns how many bytes the chunks in memory take.
func (c *Chunks) Held() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Reader hands out verified bytes of R.
type Reader struct {
	*Chunks
	R io.ReaderAt
}

// Arriving returns a function that makes a Reader of what arrives for a cache: bytes reach the cache
// once they are verified. Chunks of more than 256 MiB, such as a whole file, arrive as they are, because a part
// of one cannot be verified. They are hashed when they are read from the cache.
func Arriving(path string, size uint64, d *layout.Digests) (func(r mmapio.ContextReaderAt) mmapio.ContextReaderAt, error) {
	f, err := New(path, size, d) // with marks of its own: that a chunk arrived well says nothing of what the cache holds
	if err != nil {
		return nil, err
	}
	c := NewChunks(f, false)
	return func(r mmapio.ContextReaderAt) mmapio.ContextReaderAt {
		if min(d.Chunk, d.End-d.Off) > mostChunk {
			return r
		}
		return Reader{Chunks: c, R: r}
	}, nil
}

var _ interface {
	mmapio.ContextReaderAt
	mmapio.Namer
	mmapio.Wrapper
} = Reader{}

// Name returns the name of the file.
func (r Reader) Name() string { return r.file.path }

// Underlying returns the reader itself: see mmapio.Mapping.Probe.
func (r Reader) Underlying() io.ReaderAt { return r.R }

// ReadAt does what ReadAtContext does, however long that takes.
func (r Reader) ReadAt(p []byte, off int64) (n int, err error) {
	return r.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext reads verified bytes until ctx ends. If it fails, p holds nothing that could be used.
func (r Reader) ReadAtContext(ctx context.Context, p []byte, off int64) (n int, err error) {
	d := r.file.d
	for n < len(p) {
		at := uint64(off) + uint64(n)
		rest := p[n:]
		var got int
		switch {
		case at < d.Off:
			got = copy(rest, d.Head[at:])
		case at >= d.End:
			got, err = len(rest), mmapio.ReadFull(ctx, r.R, rest, at)
		default:
			got, err = r.chunksAt(ctx, rest, at)
		}
		if err != nil {
			clear(p)
			return 0, err
		}
		n += got
	}
	return n, nil
}

// chunksAt reads from byte at on: whole chunks at once and in place, else a part of one.
func (r Reader) chunksAt(ctx context.Context, p []byte, at uint64) (n int, err error) {
	d := r.file.d
	i := (at - d.Off) / d.Chunk
	off, size := d.Span(i)
	whole := uint64(len(p)) / d.Chunk
	if end := at + uint64(len(p)); end >= d.End && at == off {
		whole = r.file.count - i
	}
	if at == off && whole > 0 && !r.keep {
		last, lastSize := d.Span(i + whole - 1)
		n := int(last + lastSize - at)
		return n, r.inPlace(ctx, p[:n], i, whole)
	}
	b, err := r.fetch(ctx, i)
	if err != nil {
		return 0, err
	}
	if uint64(len(b)) != size {
		return 0, fmt.Errorf("%w: %d of %d bytes", io.ErrUnexpectedEOF, len(b), size)
	}
	return copy(p, b[at-off:]), nil
}

// inPlace reads n chunks from chunk i on into p, and checks them.
func (r Reader) inPlace(ctx context.Context, p []byte, i, n uint64) error {
	for c := i; c < i+n; c++ {
		if err := r.file.known(c); err != nil {
			return err
		}
	}
	begin, _ := r.file.d.Span(i)
	if err := mmapio.ReadFull(ctx, r.R, p, begin); err != nil {
		return err
	}
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(items iter.Seq[uint64]) error {
		for k := range items {
			off, size := r.file.d.Span(i + k)
			if err := r.file.sum(i+k, p[off-begin:][:size]); err != nil {
				return err
			}
		}
		return nil
	})
}

// sum checks the bytes of a chunk that are in memory.
func (f *File) sum(i uint64, b []byte) error {
	h := f.d.NewHash()
	h.Write(b)
	return f.settle(i, h.Sum(nil))
}

// fetch returns chunk i, verified. Of several that want it one fetches. If that one is cancelled, the
// next does.
func (r Reader) fetch(ctx context.Context, i uint64) ([]byte, error) {
	for {
		r.mu.Lock()
		f := r.held[i]
		if f == nil {
			f = &fetched{ended: make(chan struct{}), err: errors.New("reading did not end")} // but panicked
			r.held[i] = f
			r.mu.Unlock()
			return r.fill(ctx, i, f)
		}
		r.touch(i)
		r.mu.Unlock()
		select {
		case <-f.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if f.err == nil {
			return f.b, nil
		}
		if wrong := r.file.known(i); wrong != nil {
			return nil, wrong
		}
		// The other's failure may be its own: it was cancelled, or met a server that now is well.
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
}

func (r Reader) fill(ctx context.Context, i uint64, f *fetched) ([]byte, error) {
	off, n := r.file.d.Span(i)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if f.err != nil {
			delete(r.held, i)
		} else {
			r.bytes += n
			r.order = append(r.order, i)
			r.shrink()
		}
		close(f.ended)
	}()
	if f.err = r.file.known(i); f.err != nil {
		return nil, f.err
	}
	if !r.keep {
		if f.err = r.file.tooFar(n); f.err != nil {
			return nil, f.err
		}
	}
	b, err := mmapio.FromReaderAt(r.R, int64(r.file.size)).Copy(ctx, off, n) // which takes no memory on trust
	if f.err = err; err != nil {
		return nil, err
	}
	if f.err = r.file.sum(i, b); f.err != nil {
		return nil, f.err
	}
	f.b = b
	return b, nil
}

// touch makes chunk i the last to go.
func (c *Chunks) touch(i uint64) {
	if at := slices.Index(c.order, i); at >= 0 && !c.keep {
		c.order = append(slices.Delete(c.order, at, at+1), i)
	}
}

// shrink lets go of what nobody has wanted for the longest time.
func (c *Chunks) shrink() {
	for !c.keep && c.bytes > keptBytes && len(c.order) > 1 {
		_, n := c.file.d.Span(c.order[0])
		delete(c.held, c.order[0])
		c.order = c.order[1:]
		c.bytes -= n
	}
}
