package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/flight"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// maxChunk is the largest chunk that is fetched for a range in it.
const maxChunk = 256 << 20

// hashStep is how much of a chunk is read at a time.
const hashStep = 1 << 20

// digests knows which chunks of a file are the trusted ones.
type digests struct {
	*layout.Digests
	name        string
	isRemote    bool // chunks come over a network
	count       uint64
	firstOffset uint64 // of the first chunk
	end         uint64 // of the last chunk, or 0 if a chunk's number takes a division
	shift       uint   // log2 of the chunks' size, if it is a power of two; else 64

	verifiedBits []atomic.Uint64 // a bit for each chunk
	hashedBytes  atomic.Uint64
	failures     atomic.Uint64 // chunks whose digest was not the trusted one
	flights      flight.Group[uint64, struct{}]

	mu          sync.Mutex
	wrongChunks map[uint64]error // *layout.IntegrityError
}

// newDigests returns the digests of a file called name, with no chunk verified yet. It fails if trusted does not fit a
// file of size bytes.
func newDigests(name string, size uint64, trusted *layout.Digests) (*digests, error) {
	t := trusted
	if t.Chunk == 0 || t.Off > t.End || t.End > size || uint64(len(t.Head)) != t.Off || uint64(len(t.Sums)) != t.Count()*uint64(t.HashSize()) {
		return nil, fmt.Errorf("%w: %d bytes of digests do not fit a file of %d bytes", layout.ErrInvalid, len(t.Sums), size)
	}
	d := &digests{Digests: t, name: name, count: t.Count(), shift: 64, wrongChunks: make(map[uint64]error)}
	if t.Chunk&(t.Chunk-1) == 0 { // else end stays 0, and allVerified returns false
		d.shift, d.firstOffset, d.end = uint(bits.TrailingZeros64(t.Chunk)), t.Off, t.End
	}
	d.verifiedBits = make([]atomic.Uint64, (d.count+63)/64)
	return d, nil
}

// allVerified reports whether the n bytes at off were verified. It is quick, and true only if one word of bits tells: false
// may mean that chunks lie in two words, or that their size is no power of two.
func (d *digests) allVerified(off, n uint64) bool {
	if off < d.firstOffset || off+n > d.end || n == 0 {
		return false
	}
	lo, last := (off-d.firstOffset)>>d.shift, (off+n-1-d.firstOffset)>>d.shift
	if lo>>6 != last>>6 {
		return false
	}
	mask := ^uint64(0) >> (63 - (last - lo)) << (lo & 63)
	return d.verifiedBits[lo>>6].Load()&mask == mask
}

// isVerified reports whether chunk i was verified.
func (d *digests) isVerified(i uint64) bool { return d.verifiedBits[i>>6].Load()>>(i&63)&1 != 0 }

// chunksWith returns the chunks lo to hi-1 that have some of the n bytes at off. If none has, it returns 0, 0.
func (d *digests) chunksWith(off, n uint64) (lo, hi uint64) {
	end := min(off+n, d.End)
	off = max(off, d.Off)
	if n == 0 || off >= end {
		return 0, 0
	}
	return (off - d.Off) / d.Chunk, (end-d.Off-1)/d.Chunk + 1
}

// compare compares got, the digest computed of chunk i, with the trusted one. It notes for good that the chunk was
// verified, or its *layout.IntegrityError, which it returns.
func (d *digests) compare(i uint64, got []byte) error {
	off, n := d.Span(i)
	d.hashedBytes.Add(n)
	if want := d.Sum(i); !bytes.Equal(got, want) {
		err := &layout.IntegrityError{File: d.name, Chunk: i, Offset: off, Want: want, Got: got}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wrongChunks[i] = err
		d.failures.Add(1)
		return err
	}
	d.verifiedBits[i>>6].Or(1 << (i & 63))
	return nil
}

// compareBytes compares the digest of chunk i with that of b.
func (d *digests) compareBytes(i uint64, b []byte) error {
	h := d.NewHash()
	h.Write(b)
	return d.compare(i, h.Sum(nil))
}

// knownError returns the error of a chunk that was found to be wrong, or nil.
func (d *digests) knownError(i uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wrongChunks[i]
}

// checkSize returns an error if a chunk of n bytes comes over a network and is larger than maxChunk. All of a chunk has
// to be fetched for any range in it.
func (d *digests) checkSize(n uint64) error {
	if !d.isRemote || n <= maxChunk {
		return nil
	}
	return fmt.Errorf("%w: a part of it can be trusted only once %d bytes were read (granularity %v): copy the file to this machine first, or set Options.Private",
		layout.ErrLimit, n, d.Granularity)
}

// Trust makes f let out only bytes that match the digests that find returns. find reads the file unverified, and
// nothing of that goes into the cache. A private file is copied into memory of this process, where it is verified. The
// error is that of find, or of digests that do not fit the file.
func (f *File) Trust(ctx context.Context, private bool, find func(in layout.Input) (*layout.Digests, error)) error {
	raw := &unverified{File: f, ctx: ctx}
	trusted, err := find(raw)
	if err != nil {
		return err
	}
	d, err := newDigests(f.name, f.size, trusted)
	if err != nil {
		return err
	}
	d.isRemote = f.source != nil && !private
	if f.source != nil {
		// It has bits of its own: a chunk that arrived well may be another one in the file of the cache.
		arriving, err := newDigests(f.name, f.size, trusted)
		if err != nil {
			return err
		}
		f.verifiedChunks = &chunks{digests: d, fetch: f.read}
		if f.cache != nil && min(d.Chunk, d.End-d.Off) <= maxChunk {
			c := &chunks{digests: arriving, fetch: (&File{name: f.name, source: f.source, fetchedBytes: f.fetchedBytes}).fromSource}
			f.cache.Fetch(func(ctx context.Context, p []byte, off int64) error { return c.read(ctx, p, uint64(off)) })
		}
	}
	if private {
		return f.copyPrivately(ctx, d)
	}
	f.digests = d
	if f.cache != nil && raw.end > 0 {
		f.cache.Bring(ctx, 0, raw.end) // what find has read, now verified; an error shows when it is next read
	}
	return nil
}

// unverified is a file before its digests are known.
type unverified struct {
	*File
	ctx context.Context
	end uint64 // of what came from the source
}

// Slice returns the n bytes at off, unverified: from the cache if it has them, or else from the source, past the cache.
// u.end is then at least off+n.
func (u *unverified) Slice(off, n uint64) ([]byte, error) {
	if u.source == nil || u.Has(off, n) {
		return u.Input(u.ctx).Slice(off, n)
	}
	if !layout.Within(off, n, u.size) {
		return nil, u.rangeError(off, n)
	}
	u.end = max(u.end, off+n)
	return mmapio.Gather(n, func() (bool, error) {
		return !u.isRemote, u.fromSource(u.ctx, make([]byte, min(n, 1)), off+n-min(n, 1))
	}, func(dst []byte, at uint64) error {
		return u.fromSource(u.ctx, dst, off+at)
	})
}

// copyPrivately makes f a file in memory of this process alone. It copies the bytes before and after the chunks now. A
// chunk is copied when it is verified. The error is layout.ErrLimit if many bytes follow the chunks, or that of
// reading.
func (f *File) copyPrivately(ctx context.Context, d *digests) error {
	if rest := f.size - d.End; rest > mmapio.Trusted {
		return fmt.Errorf("%w: %d bytes that no digest covers", layout.ErrLimit, rest)
	}
	own, b, err := mmapio.Anonymous(f.name, int(f.size))
	if err != nil {
		return err
	}
	from := &File{name: f.name, size: f.size, isRemote: f.isRemote, mapping: f.mapping, source: f.source, fetchedBytes: f.fetchedBytes, cache: f.cache, openingReader: f.openingReader}
	copy(b, d.Head)
	if d.End < f.size {
		err = from.ReadAt(ctx, b[d.End:], d.End)
	}
	if err != nil {
		own.Close()
		return err
	}
	f.copiedFrom, f.private, f.digests, f.mapping = from, b, d, own
	f.source, f.cache, f.verifiedChunks, f.openingReader = nil, nil, nil, nil
	return nil
}

// verify makes sure that the n bytes at off are the trusted ones. It hashes the chunks that are not yet verified, on
// all cores. The error is a *layout.IntegrityError of the first wrong chunk, the same each time, that of reading, or
// why ctx has ended. Bytes that no digest covers pass.
func (f *File) verify(ctx context.Context, off, n uint64) error {
	if !layout.Within(off, n, f.size) {
		return nil // whoever reads them says so
	}
	d := f.digests
	if f.Fetches() { // bytes before and after the chunks are only made present
		for _, outside := range [][2]uint64{{off, min(off+n, d.Off)}, {max(off, d.End), off + n}} {
			if begin, end := outside[0], outside[1]; begin < end {
				if err := f.fetchToCache(ctx, begin, end-begin); err != nil {
					return err
				}
			}
		}
	}
	lo, hi := d.chunksWith(off, n)
	// next takes the next chunk that is not yet verified.
	next := func() (i uint64, ok bool) {
		for ; lo < hi; lo++ {
			if !d.isVerified(lo) {
				lo++
				return lo - 1, true
			}
		}
		return 0, false
	}
	workers := uint64(parallel.Cores())
	if d.isRemote {
		workers = max(workers, 8)
	}
	var err error
	if hi-lo <= 1 {
		if i, ok := next(); ok {
			err = f.verifyChunk(ctx, i)
		}
	} else {
		err = parallel.Each(int(min(workers, hi-lo)), next, func(items iter.Seq[uint64]) error {
			for i := range items {
				if err := f.verifyChunk(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if errors.Is(err, errCacheFull) { // what the source reads is verified as it comes
		return nil
	}
	return err
}

// errCacheFull means that a chunk did not go to a file that takes no more.
var errCacheFull = errors.New("the cache takes no more")

// verifyChunk makes chunk i present and compares its digest, or waits for the call that does. The error is errCacheFull, that of
// reading, of a wrong chunk, or of one that is too large.
func (f *File) verifyChunk(ctx context.Context, i uint64) error {
	_, err := f.digests.flights.Do(ctx, i, func(ctx context.Context) (none struct{}, err error) {
		d := f.digests
		if d.isVerified(i) {
			return none, nil
		}
		off, n := d.Span(i)
		if err := d.knownError(i); err != nil {
			return none, err
		}
		if err := d.checkSize(n); err != nil {
			return none, err
		}
		h := d.NewHash()
		if err := f.readUnverified(ctx, off, n, func(b []byte) { h.Write(b) }); err != nil {
			return none, err
		}
		return none, d.compare(i, h.Sum(nil))
	})
	return err
}

// readUnverified calls use with the n bytes at off, in order and in pieces, before they are verified. b is the file in
// memory, or the private copy that was just written, or one buffer that is used again. It returns errCacheFull if the cache
// is full. It also fails if reading or use does.
func (f *File) readUnverified(ctx context.Context, off, n uint64, use func(b []byte)) error {
	if f.Fetches() {
		if err := f.fetchToCache(ctx, off, n); err != nil {
			return err
		}
		if !f.InPlace() {
			return errCacheFull
		}
	}
	if f.copiedFrom == nil && f.openingReader == nil && f.InPlace() {
		return mmapio.Guard(func() error {
			b, err := f.mapping.Slice(off, n)
			if err == nil {
				use(b)
			}
			return err
		})
	}
	var buf []byte
	if f.copiedFrom == nil {
		buf = mmapio.AlignedBytes(int(min(hashStep, n)))
	}
	for end := off + n; off < end; {
		step := min(hashStep, end-off)
		read, b := f.read, buf
		if f.copiedFrom != nil { // the private copy is written, and shown to use
			step = min(mmapio.Trusted, end-off)
			read, b = f.copiedFrom.ReadAt, f.private[off:]
		}
		if err := read(ctx, b[:step], off); err != nil {
			return err
		}
		use(b[:step])
		off += step
	}
	return nil
}

// Digests returns the trusted digests of the file's chunks, or nil if its bytes are not verified.
func (f *File) Digests() *layout.Digests {
	if f.digests == nil {
		return nil
	}
	return f.digests.Digests
}

// Hashed returns how many bytes were hashed to verify them. A chunk that was fetched twice counts twice.
func (f *File) Hashed() uint64 {
	if f.digests == nil {
		return 0
	}
	return f.digests.hashedBytes.Load()
}

// WrongChunks returns how many chunks had another digest than the trusted one. A chunk that was fetched twice counts twice.
func (f *File) WrongChunks() uint64 {
	if f.digests == nil {
		return 0
	}
	return f.digests.failures.Load()
}

// PrivateBytes returns how many verified bytes are on the heap: those of a private copy, or of the chunks of a remote
// file that are remembered. It is 0 for any other file.
func (f *File) PrivateBytes() uint64 {
	switch {
	case f.copiedFrom != nil:
		return f.Hashed()
	case f.verifiedChunks != nil:
		return f.verifiedChunks.heapBytes()
	}
	return 0
}
