// Package verified compares the chunks of a file with the digests that its user trusts. A [File] that is
// mapped, or is a file of this system, hashes a chunk when it is first touched, and once. A [Reader]
// hashes what arrives from afar, each time it arrives, and hands out nothing else.
package verified

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// File knows which chunks of a file are the trusted ones. It is safe for concurrent use.
type File struct {
	// Afar says that what Check hashes may have to come over a network first.
	Afar bool

	path  string
	size  uint64
	d     *layout.Digests
	count uint64
	off   uint64 // d.Off
	end   uint64 // d.End, or 0 if a chunk's number takes a division
	shift uint   // log2 of the chunks' size, if it is a power of two; else 64

	done  []atomic.Uint64 // a bit for each chunk
	bytes atomic.Uint64

	mu      sync.Mutex
	running map[uint64]*run
	wrong   map[uint64]error // *layout.IntegrityError
}

// run is the hashing of a chunk, which others wait for.
type run struct {
	ended chan struct{}
	err   error
}

// Hash hands the n bytes at off to f, in pieces and in order.
type Hash func(ctx context.Context, off, n uint64, f func(b []byte)) error

// New returns the File of size bytes at path. It refuses digests that do not fit the size.
func New(path string, size uint64, d *layout.Digests) (*File, error) {
	if d.Chunk == 0 || d.Off > d.End || d.End > size || uint64(len(d.Head)) != d.Off || uint64(len(d.Sums)) != d.Count()*uint64(d.HashSize()) {
		return nil, fmt.Errorf("%w: %d bytes of digests do not fit a file of %d bytes", layout.ErrInvalid, len(d.Sums), size)
	}
	f := &File{path: path, size: size, d: d, count: d.Count(), shift: 64, running: make(map[uint64]*run), wrong: make(map[uint64]error)}
	if d.Chunk&(d.Chunk-1) == 0 {
		f.shift, f.off, f.end = uint(bits.TrailingZeros64(d.Chunk)), d.Off, d.End
	}
	f.done = make([]atomic.Uint64, (f.count+63)/64)
	return f, nil
}

// Digests returns what is trusted.
func (f *File) Digests() *layout.Digests { return f.d }

// Bytes returns how many bytes have been hashed.
func (f *File) Bytes() uint64 { return f.bytes.Load() }

// chunks returns the chunks lo to hi-1 that hold n bytes at off.
func (f *File) chunks(off, n uint64) (lo, hi uint64) {
	end := min(off+n, f.d.End)
	off = max(off, f.d.Off)
	if n == 0 || off >= end {
		return 0, 0
	}
	off, end = off-f.d.Off, end-f.d.Off-1
	if f.shift < 64 {
		return off >> f.shift, end>>f.shift + 1
	}
	return off / f.d.Chunk, end/f.d.Chunk + 1
}

// Check makes sure that the n bytes at off are the trusted ones. It hashes the chunks that nobody has
// touched, on all cores. The error is a *layout.IntegrityError of the first wrong chunk, the same each
// time, that of hash, or why ctx has ended. Bytes before and after those that digests cover pass.
func (f *File) Check(ctx context.Context, off, n uint64, hash Hash) error {
	if off >= f.off && off+n <= f.end && n > 0 { // the usual case, in one word of bits
		lo, last := (off-f.off)>>f.shift, (off+n-1-f.off)>>f.shift
		if lo>>6 == last>>6 {
			mask := ^uint64(0) >> (63 - (last - lo)) << (lo & 63)
			if f.done[lo>>6].Load()&mask == mask {
				return nil
			}
		}
	}
	return f.checkCold(ctx, off, n, hash)
}

func (f *File) checkCold(ctx context.Context, off, n uint64, hash Hash) error {
	lo, hi := f.chunks(off, n)
	if lo == hi {
		return nil
	}
	next := func() (i uint64, ok bool) {
		for ; lo < hi; lo++ {
			if !f.isDone(lo) {
				lo++
				return lo - 1, true
			}
		}
		return 0, false
	}
	if hi == lo+1 {
		return f.chunk(ctx, lo, hash)
	}
	workers := parallel.Cores()
	if f.Afar {
		workers = max(workers, 8)
	}
	return parallel.Each(int(min(uint64(workers), hi-lo)), next, func(items iter.Seq[uint64]) error {
		for i := range items {
			if err := f.chunk(ctx, i, hash); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *File) isDone(i uint64) bool { return f.done[i>>6].Load()>>(i&63)&1 != 0 }

// chunk checks a chunk, or waits for the goroutine that does.
func (f *File) chunk(ctx context.Context, i uint64, hash Hash) error {
	var r *run
	for {
		f.mu.Lock()
		if f.isDone(i) {
			f.mu.Unlock()
			return nil
		}
		if err := f.wrong[i]; err != nil {
			f.mu.Unlock()
			return err
		}
		if r = f.running[i]; r == nil {
			break
		}
		f.mu.Unlock()
		select {
		case <-r.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.err != nil && !f.Afar || ctx.Err() != nil { // or else it may be the other's own, who was cancelled
			return cmp.Or(r.err, context.Cause(ctx))
		}
	}
	r = &run{ended: make(chan struct{}), err: fmt.Errorf("chunk %d: hashing did not end", i)} // but panicked
	f.running[i] = r
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.running, i)
		f.mu.Unlock()
		close(r.ended)
	}()
	h := f.d.NewHash()
	off, n := f.d.Span(i)
	if r.err = f.tooFar(n); r.err != nil {
		return r.err
	}
	if r.err = hash(ctx, off, n, func(b []byte) { h.Write(b) }); r.err != nil {
		return r.err
	}
	r.err = f.settle(i, h.Sum(nil))
	return r.err
}

// tooFar refuses a chunk of n bytes that would have to be fetched for a part of it.
func (f *File) tooFar(n uint64) error {
	if !f.Afar || n <= mostChunk {
		return nil
	}
	return fmt.Errorf("%w: a part of it can be trusted only once %d bytes were read (granularity %v): copy the file to this machine first, or set Options.Private",
		layout.ErrLimit, n, f.d.Granularity)
}

// settle compares the digest of chunk i, and keeps the result for good.
func (f *File) settle(i uint64, got []byte) error {
	off, n := f.d.Span(i)
	f.bytes.Add(n)
	if want := f.d.Sum(i); !bytes.Equal(got, want) {
		err := &layout.IntegrityError{File: f.path, Chunk: i, Offset: off, Want: want, Got: got}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wrong[i] = err
		return err
	}
	f.done[i>>6].Or(1 << (i & 63))
	return nil
}

// known returns the error of a chunk that was found to be wrong, or nil.
func (f *File) known(i uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrong[i]
}
