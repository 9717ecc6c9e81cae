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
	end         uint64 // of the last chunk; 0, for allVerified to report false, if the chunks' size is no power of two
	shift       uint   // log2 of the chunks' size; 64 if that is no power of two

	verifiedBits []atomic.Uint64 // a bit for each chunk
	hashedBytes  atomic.Uint64
	failures     atomic.Uint64 // chunks whose digest was not the trusted one
	flights      flight.Group[uint64, struct{}]

	mu          sync.Mutex
	wrongChunks map[uint64]error // *layout.IntegrityError
}

// newDigests returns the digests of a file called name, with no chunk verified yet. It fails with layout.ErrInvalid if
// trusted does not fit a file of size bytes.
func newDigests(name string, size uint64, trusted *layout.Digests) (*digests, error) {
	t := trusted
	fitsFile := t.Chunk > 0 && t.Off <= t.End && t.End <= size && uint64(len(t.Head)) == t.Off
	if !fitsFile || uint64(len(t.Sums)) != t.Count()*uint64(t.HashSize()) {
		return nil, fmt.Errorf("%w: %d bytes of digests do not fit a file of %d bytes", layout.ErrInvalid, len(t.Sums), size)
	}
	d := &digests{Digests: t, name: name, count: t.Count(), shift: 64, wrongChunks: make(map[uint64]error)}
	if t.Chunk&(t.Chunk-1) == 0 { // a power of two
		d.shift, d.firstOffset, d.end = uint(bits.TrailingZeros64(t.Chunk)), t.Off, t.End
	}
	d.verifiedBits = make([]atomic.Uint64, (d.count+63)/64)
	return d, nil
}

// allVerified reports whether the n bytes at off are known to be verified. It looks only at one word of verifiedBits, without a division.
// It also reports false if the bits lie in two words, if the chunks' size is no power of two, or if n is 0.
func (d *digests) allVerified(off, n uint64) bool {
	if off < d.firstOffset || off+n > d.end || n == 0 { // d.end is 0 if the chunks' size is no power of two
		return false
	}
	lo, last := (off-d.firstOffset)>>d.shift, (off+n-1-d.firstOffset)>>d.shift
	if lo>>6 != last>>6 {
		return false
	}
	ones := ^uint64(0) >> (63 - (last - lo)) // as many as there are chunks
	mask := ones << (lo & 63)                // the bits of chunks lo to last, which lie in one word
	return d.verifiedBits[lo>>6].Load()&mask == mask
}

// isVerified reports whether chunk i was verified: whether bit i%64 of word i/64 is set.
func (d *digests) isVerified(i uint64) bool { return (d.verifiedBits[i>>6].Load()>>(i&63))&1 != 0 }

// chunksWith returns the chunks lo to hi-1 that have some of the n bytes at off, which lie in the file. If none has, it returns 0, 0.
func (d *digests) chunksWith(off, n uint64) (lo, hi uint64) {
	end := min(off+n, d.End)
	off = max(off, d.Off)
	if n == 0 || off >= end {
		return 0, 0
	}
	return (off - d.Off) / d.Chunk, (end-d.Off-1)/d.Chunk + 1
}

// compare compares got, the digest computed of chunk i, with the trusted one. If they are equal, it notes for good that the chunk is
// verified. If they differ, it notes and returns a *layout.IntegrityError, and counts a failure.
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

// compareBytes hashes b, the bytes of chunk i, and compares the digest as compare does.
func (d *digests) compareBytes(i uint64, b []byte) error {
	h := d.NewHash()
	h.Write(b)
	return d.compare(i, h.Sum(nil))
}

// knownError returns the error of chunk i if that was found to be wrong, else nil.
func (d *digests) knownError(i uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wrongChunks[i]
}

// checkSize returns an error that wraps layout.ErrLimit if a chunk of n bytes comes over a network and is larger than maxChunk, else
// nil. All of a chunk has to be fetched for any range in it.
func (d *digests) checkSize(n uint64) error {
	if !d.isRemote || n <= maxChunk {
		return nil
	}
	return fmt.Errorf("%w: a part of it can be trusted only once %d bytes were read (granularity %v): copy the file to this machine first, or set Options.Private",
		layout.ErrLimit, n, d.Granularity)
}

// Trust makes f let out only bytes that match the digests that find returns. find reads f unverified, and nothing of that goes into the
// cache. Unless a chunk has more than maxChunk bytes, the cache verifies bytes from then on before it writes them to its file. If private
// is true, f becomes a copy in memory of this process, where nobody else can change it. Trust fails if find or copying does. It returns
// layout.ErrInvalid if the digests do not fit the file.
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
		// Chunks are verified twice: by arriving as they come from the source, and by d in the cache's file, where somebody may have
		// changed them since.
		arriving, err := newDigests(f.name, f.size, trusted)
		if err != nil {
			return err
		}
		f.verifiedChunks = &chunks{digests: d, fetch: f.read}
		if f.cache != nil && min(d.Chunk, d.End-d.Off) <= maxChunk {
			past := &File{name: f.name, source: f.source, fetchedBytes: f.fetchedBytes} // f without its cache
			c := &chunks{digests: arriving, fetch: past.fromSource}
			f.cache.Fetch(func(ctx context.Context, p []byte, off int64) error { return c.read(ctx, p, uint64(off)) })
		}
	}
	if private {
		return f.copyPrivately(ctx, d)
	}
	f.digests = d
	if f.cache != nil && raw.end > 0 {
		f.cache.Bring(ctx, 0, raw.end) // fetches again what find has read, now verified; an error shows when it is next read
	}
	return nil
}

// unverified is a file before its digests are known.
type unverified struct {
	*File
	ctx context.Context
	end uint64 // where the last byte ends that came from the source
}

// Slice returns the n bytes at off, unverified. It takes them from memory without a source or if the cache has them, else
// from the source, past the cache. It notes in u.end how far it has read the source. It fails if the bytes leave the file,
// or if reading does.
func (u *unverified) Slice(off, n uint64) ([]byte, error) {
	if u.source == nil || u.Has(off, n) {
		return u.Input(u.ctx).Slice(off, n)
	}
	if !layout.Within(off, n, u.size) {
		return nil, u.rangeError(off, n)
	}
	u.end = max(u.end, off+n)
	probeLast := func() (sizeIsSure bool, err error) { // Gather calls it only for more than mmapio.Trusted bytes
		return !u.isRemote, u.fromSource(u.ctx, make([]byte, 1), off+n-1)
	}
	return mmapio.Gather(n, probeLast, func(dst []byte, at uint64) error { return u.fromSource(u.ctx, dst, off+at) })
}

// copyPrivately makes f a file in memory of this process alone, where nobody else can change bytes once they are verified. It copies at
// once the bytes outside the chunks: those before the first chunk, which d.Head has, and those after the last. Each chunk is copied later,
// when it is verified. f.copiedFrom is then the file that f was. It returns layout.ErrLimit if more than mmapio.Trusted bytes follow the
// last chunk, too many to copy at once. It also fails if allocating or reading does.
func (f *File) copyPrivately(ctx context.Context, d *digests) error {
	if rest := f.size - d.End; rest > mmapio.Trusted {
		return fmt.Errorf("%w: %d bytes that no digest covers", layout.ErrLimit, rest)
	}
	own, b, err := mmapio.Anonymous(f.name, int(f.size))
	if err != nil {
		return err
	}
	// from is the file that f was: the copy reads its bytes from it.
	from := &File{name: f.name, size: f.size, isRemote: f.isRemote, mapping: f.mapping, source: f.source, fetchedBytes: f.fetchedBytes, cache: f.cache, openingReader: f.openingReader}
	copy(b, d.Head)
	if d.End < f.size {
		err = from.ReadAt(ctx, b[d.End:], d.End)
	}
	if err != nil {
		own.Close()
		return err
	}
	// From here on f is the copy: its memory is own, and only from has a source or a cache.
	f.copiedFrom, f.private, f.digests, f.mapping = from, b, d, own
	f.source, f.cache, f.verifiedChunks, f.openingReader = nil, nil, nil, nil
	return nil
}

// verify makes sure that the n bytes at off are the trusted ones. On all cores it hashes the chunks that have some of the bytes and are
// not yet verified. It returns nil for a range that leaves the file, and ignores bytes that no digest covers. If the cache is full it
// returns nil, with bytes unverified: ReadAt then reads and verifies them from the source. It returns the *layout.IntegrityError of a
// wrong chunk, and returns it again at each further call. It also fails if reading does, or if ctx ends.
func (f *File) verify(ctx context.Context, off, n uint64) error {
	if !layout.Within(off, n, f.size) {
		return nil // whoever reads them returns an error
	}
	d := f.digests
	if f.Fetches() { // no digest covers bytes before and after the chunks, but View needs them in the cache
		for _, outside := range [][2]uint64{{off, min(off+n, d.Off)}, {max(off, d.End), off + n}} {
			if begin, end := outside[0], outside[1]; begin < end {
				if err := f.fetchToCache(ctx, begin, end-begin); err != nil {
					return err
				}
			}
		}
	}
	lo, hi := d.chunksWith(off, n)
	// next returns the next chunk that is not yet verified, or false after the last one. parallel.Each calls it one at a time.
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
	if d.isRemote { // workers wait for the network most of the time
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
	if errors.Is(err, errCacheFull) {
		return nil
	}
	return err
}

// errCacheFull says that a chunk was not verified, since the cache's file cannot take it.
var errCacheFull = errors.New("the cache takes no more")

// verifyChunk reads chunk i, compares its digest with the trusted one, and notes the result. If another call is verifying the chunk, it
// waits for that call's result. It returns nil at once if the chunk is verified already. It returns a *layout.IntegrityError for a wrong
// chunk. It returns layout.ErrLimit for one that checkSize finds too large, and errCacheFull if the cache cannot take it. It also fails if
// reading does.
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

// readUnverified calls use with consecutive pieces b of the n bytes at off, before they are verified. b is valid only during the call: it
// is memory of the file or of the private copy, or a buffer that is used again. It returns errCacheFull if the cache cannot take the
// bytes. It returns a *mmapio.FaultError if mapped memory is lost, also inside use. It also fails if reading does.
func (f *File) readUnverified(ctx context.Context, off, n uint64, use func(b []byte)) error {
	if f.Fetches() {
		if err := f.fetchToCache(ctx, off, n); err != nil {
			return err
		}
		if !f.InPlace() {
			return errCacheFull
		}
	}
	if f.copiedFrom != nil {
		return f.copyUnverified(ctx, off, n, use)
	}
	if f.openingReader == nil && f.InPlace() {
		return mmapio.Guard(func() error {
			b, err := f.mapping.Slice(off, n)
			if err == nil {
				use(b)
			}
			return err
		})
	}
	buf := mmapio.AlignedBytes(int(min(hashStep, n)))
	for end := off + n; off < end; {
		b := buf[:min(hashStep, end-off)]
		if err := f.read(ctx, b, off); err != nil {
			return err
		}
		use(b)
		off += uint64(len(b))
	}
	return nil
}

// copyUnverified copies the n bytes at off into the private copy, and calls use with each piece once it is there. A piece has at
// most mmapio.Trusted bytes. One call at a time copies a chunk: see verifyChunk. It fails if reading does.
func (f *File) copyUnverified(ctx context.Context, off, n uint64, use func(b []byte)) error {
	for end := off + n; off < end; {
		b := f.private[off:min(end, off+mmapio.Trusted)]
		if err := f.copiedFrom.ReadAt(ctx, b, off); err != nil {
			return err
		}
		use(b)
		off += uint64(len(b))
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

// Hashed returns how many bytes were hashed to verify them, or 0 without digests. A chunk that was fetched twice counts twice.
func (f *File) Hashed() uint64 {
	if f.digests == nil {
		return 0
	}
	return f.digests.hashedBytes.Load()
}

// WrongChunks returns how many chunks had another digest than the trusted one, or 0 without digests. A chunk that was fetched
// twice counts twice.
func (f *File) WrongChunks() uint64 {
	if f.digests == nil {
		return 0
	}
	return f.digests.failures.Load()
}

// PrivateBytes returns how many verified bytes are in memory of this process: those of a private copy, or of the recent chunks of a file
// with a source. It is 0 for any other file.
func (f *File) PrivateBytes() uint64 {
	switch {
	case f.copiedFrom != nil:
		return f.Hashed() // each chunk is hashed when it is copied
	case f.verifiedChunks != nil:
		return f.verifiedChunks.heapBytes()
	}
	return 0
}
