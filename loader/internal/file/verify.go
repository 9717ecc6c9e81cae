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

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/flight"
	"github.com/tensormap/tensormap/mmapio"
)

// maxChunk is the largest chunk that is fetched for a range in it.
const maxChunk = 256 << 20

// pieceBytes is how much of a chunk is read at a time.
const pieceBytes = 1 << 20

// digests knows which chunks of a file are the trusted ones.
type digests struct {
	*layout.Digests
	name   string
	remote bool // chunks come over a network
	count  uint64
	off    uint64 // of the first chunk
	end    uint64 // of the last chunk, or 0 if a chunk's number takes a division
	shift  uint   // log2 of the chunks' size, if it is a power of two; else 64

	ok      []atomic.Uint64 // a bit for each chunk
	hashed  atomic.Uint64   // bytes
	flights flight.Group[uint64, struct{}]

	mu    sync.Mutex
	wrong map[uint64]error // *layout.IntegrityError
}

// newDigests returns the digests of a file called name, with no chunk verified yet. It fails if trusted does not fit a
// file of size bytes.
func newDigests(name string, size uint64, trusted *layout.Digests) (*digests, error) {
	t := trusted
	if t.Chunk == 0 || t.Off > t.End || t.End > size || uint64(len(t.Head)) != t.Off || uint64(len(t.Sums)) != t.Count()*uint64(t.HashSize()) {
		return nil, fmt.Errorf("%w: %d bytes of digests do not fit a file of %d bytes", layout.ErrInvalid, len(t.Sums), size)
	}
	d := &digests{Digests: t, name: name, count: t.Count(), shift: 64, wrong: make(map[uint64]error)}
	if t.Chunk&(t.Chunk-1) == 0 { // else end stays 0, and done returns false
		d.shift, d.off, d.end = uint(bits.TrailingZeros64(t.Chunk)), t.Off, t.End
	}
	d.ok = make([]atomic.Uint64, (d.count+63)/64)
	return d, nil
}

// done reports whether the n bytes at off were verified. It is quick, and true only if one word of bits tells: false
// may mean that chunks lie in two words, or that their size is no power of two.
func (d *digests) done(off, n uint64) bool {
	if off < d.off || off+n > d.end || n == 0 {
		return false
	}
	lo, last := (off-d.off)>>d.shift, (off+n-1-d.off)>>d.shift
	if lo>>6 != last>>6 {
		return false
	}
	mask := ^uint64(0) >> (63 - (last - lo)) << (lo & 63)
	return d.ok[lo>>6].Load()&mask == mask
}

// isDone reports whether chunk i was verified.
func (d *digests) isDone(i uint64) bool { return d.ok[i>>6].Load()>>(i&63)&1 != 0 }

// span returns the chunks lo to hi-1 that have some of the n bytes at off. If none has, it returns 0, 0.
func (d *digests) span(off, n uint64) (lo, hi uint64) {
	end := min(off+n, d.End)
	off = max(off, d.Off)
	if n == 0 || off >= end {
		return 0, 0
	}
	return (off - d.Off) / d.Chunk, (end-d.Off-1)/d.Chunk + 1
}

// sum compares got, the digest computed of chunk i, with the trusted one. It notes for good that the chunk was
// verified, or its *layout.IntegrityError, which it returns.
func (d *digests) sum(i uint64, got []byte) error {
	off, n := d.Span(i)
	d.hashed.Add(n)
	if want := d.Sum(i); !bytes.Equal(got, want) {
		err := &layout.IntegrityError{File: d.name, Chunk: i, Offset: off, Want: want, Got: got}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wrong[i] = err
		return err
	}
	d.ok[i>>6].Or(1 << (i & 63))
	return nil
}

// sumBytes compares the digest of chunk i with that of b.
func (d *digests) sumBytes(i uint64, b []byte) error {
	h := d.NewHash()
	h.Write(b)
	return d.sum(i, h.Sum(nil))
}

// knownError returns the error of a chunk that was found to be wrong, or nil.
func (d *digests) knownError(i uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wrong[i]
}

// checkSize returns an error if a chunk of n bytes comes over a network and is larger than maxChunk. All of a chunk has
// to be fetched for any range in it.
func (d *digests) checkSize(n uint64) error {
	if !d.remote || n <= maxChunk {
		return nil
	}
	return fmt.Errorf("%w: a part of it can be trusted only once %d bytes were read (granularity %v): copy the file to this machine first, or set Options.Private",
		layout.ErrLimit, n, d.Granularity)
}

// Trust makes f let out only bytes whose digests are those that find returns. find reads the file unverified, and
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
	d.remote = f.source != nil && !private
	if f.source != nil {
		// It has bits of its own: a chunk that arrived well may be another one in the file of the cache.
		arriving, err := newDigests(f.name, f.size, trusted)
		if err != nil {
			return err
		}
		f.chunks = &chunks{digests: d, fetch: f.read}
		if f.cache != nil && min(d.Chunk, d.End-d.Off) <= maxChunk {
			c := &chunks{digests: arriving, fetch: (&File{name: f.name, source: f.source}).fromSource}
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

// Slice returns the n bytes at off: those that the cache has, or else what the source sends, which the cache does not
// get. u.end then covers them.
func (u *unverified) Slice(off, n uint64) ([]byte, error) {
	if u.source == nil || u.Has(off, n) {
		return u.Input(u.ctx).Slice(off, n)
	}
	if !layout.Within(off, n, u.size) {
		return nil, u.outside(off, n)
	}
	u.end = max(u.end, off+n)
	return mmapio.Gather(n, func() (bool, error) {
		return !u.remote, u.fromSource(u.ctx, make([]byte, min(n, 1)), off+n-min(n, 1))
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
	from := &File{name: f.name, size: f.size, remote: f.remote, memory: f.memory, source: f.source, cache: f.cache, opening: f.opening}
	copy(b, d.Head)
	if d.End < f.size {
		err = from.ReadAt(ctx, b[d.End:], d.End)
	}
	if err != nil {
		own.Close()
		return err
	}
	f.from, f.private, f.digests, f.memory = from, b, d, own
	f.source, f.cache, f.chunks, f.opening = nil, nil, nil, nil
	return nil
}

// verify makes sure that the n bytes at off are the trusted ones. It hashes the chunks that are not yet verified, on
// all cores. The error is a *layout.IntegrityError of the first wrong chunk, the same each time, that of reading, or
// why ctx has ended. Bytes before and after those that digests cover pass.
func (f *File) verify(ctx context.Context, off, n uint64) error {
	if !layout.Within(off, n, f.size) {
		return nil // whoever reads them says so
	}
	d := f.digests
	if f.Fetches() { // bytes before and after the chunks are only made present
		for _, outside := range [][2]uint64{{off, min(off+n, d.Off)}, {max(off, d.End), off + n}} {
			if begin, end := outside[0], outside[1]; begin < end {
				if err := f.bring(ctx, begin, end-begin); err != nil {
					return err
				}
			}
		}
	}
	lo, hi := d.span(off, n)
	// next takes the next chunk that is not yet verified.
	next := func() (i uint64, ok bool) {
		for ; lo < hi; lo++ {
			if !d.isDone(lo) {
				lo++
				return lo - 1, true
			}
		}
		return 0, false
	}
	workers := uint64(parallel.Cores())
	if d.remote {
		workers = max(workers, 8)
	}
	var err error
	if hi-lo <= 1 {
		if i, ok := next(); ok {
			err = f.arrive(ctx, i)
		}
	} else {
		err = parallel.Each(int(min(workers, hi-lo)), next, func(items iter.Seq[uint64]) error {
			for i := range items {
				if err := f.arrive(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if errors.Is(err, errFull) { // what the source reads is verified as it comes
		return nil
	}
	return err
}

// errFull means that a chunk did not go to a file that takes no more.
var errFull = errors.New("the cache takes no more")

// arrive makes chunk i present and compares its digest, or waits for the call that does. The error is errFull, that of
// reading, of a wrong chunk, or of one that is too large.
func (f *File) arrive(ctx context.Context, i uint64) error {
	_, err := f.digests.flights.Do(ctx, i, func(ctx context.Context) (none struct{}, err error) {
		d := f.digests
		if d.isDone(i) {
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
		if err := f.eachPiece(ctx, off, n, func(b []byte) { h.Write(b) }); err != nil {
			return none, err
		}
		return none, d.sum(i, h.Sum(nil))
	})
	return err
}

// eachPiece calls use with the n bytes at off, in order and in pieces, before they are verified. b is the file in
// memory, or the private copy that was just written, or one buffer that is used again. It returns errFull if the cache
// is full.
func (f *File) eachPiece(ctx context.Context, off, n uint64, use func(b []byte)) error {
	if f.Fetches() {
		if err := f.bring(ctx, off, n); err != nil {
			return err
		}
		if !f.InPlace() {
			return errFull
		}
	}
	if f.from == nil && f.opening == nil && f.InPlace() {
		return mmapio.Guard(func() error {
			b, err := f.memory.Slice(off, n)
			if err == nil {
				use(b)
			}
			return err
		})
	}
	var buf []byte
	if f.from == nil {
		buf = mmapio.AlignedBytes(int(min(pieceBytes, n)))
	}
	for end := off + n; off < end; {
		step := min(pieceBytes, end-off)
		read, b := f.read, buf
		if f.from != nil { // the private copy is written, and shown to use
			step = min(mmapio.Trusted, end-off)
			read, b = f.from.ReadAt, f.private[off:]
		}
		if err := read(ctx, b[:step], off); err != nil {
			return err
		}
		use(b[:step])
		off += step
	}
	return nil
}

// Digests returns what is trusted, or nil.
func (f *File) Digests() *layout.Digests {
	if f.digests == nil {
		return nil
	}
	return f.digests.Digests
}

// Hashed returns how many bytes were hashed.
func (f *File) Hashed() uint64 {
	if f.digests == nil {
		return 0
	}
	return f.digests.hashed.Load()
}

// PrivateBytes returns how many verified bytes are in memory of this process.
func (f *File) PrivateBytes() uint64 {
	switch {
	case f.from != nil:
		return f.Hashed()
	case f.chunks != nil:
		return f.chunks.heap()
	}
	return 0
}
