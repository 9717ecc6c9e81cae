package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	name     string
	isRemote bool // chunks come over a network

	verifiedBits []atomic.Uint64 // a bit for each chunk
	hashedBytes  atomic.Uint64
	failures     atomic.Uint64 // chunks whose digest was not the trusted one
	flights      flight.Group[uint64, struct{}]

	mu          sync.Mutex
	wrongChunks map[uint64]error // *layout.IntegrityError
}

// newDigests returns t, the digests of a file called name, with no chunk verified yet. It fails with layout.ErrInvalid if t does not
// fit a file of size bytes.
func newDigests(name string, size uint64, t *layout.Digests) (*digests, error) {
	fitsFile := t.Chunk > 0 && t.Off <= t.End && t.End <= size && uint64(len(t.Head)) == t.Off
	if !fitsFile || uint64(len(t.Sums)) != t.Count()*uint64(t.HashSize()) {
		return nil, fmt.Errorf("%w: %d bytes of digests do not fit a file of %d bytes", layout.ErrInvalid, len(t.Sums), size)
	}
	return &digests{Digests: t, name: name, verifiedBits: make([]atomic.Uint64, (t.Count()+63)/64), wrongChunks: make(map[uint64]error)}, nil
}

// allVerified reports whether chunks have all of the n bytes at off, and these chunks are verified. It takes no lock.
func (d *digests) allVerified(off, n uint64) bool {
	if n == 0 || off < d.Off || !layout.Within(off, n, d.End) {
		return false
	}
	lo, hi := d.chunksWith(off, n)
	for lo < hi && d.isVerified(lo) {
		lo++
	}
	return lo == hi
}

// chunkBytes returns the size of the largest chunk.
func (d *digests) chunkBytes() uint64 { return min(d.Chunk, d.End-d.Off) }

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
	off, n := d.ChunkRange(i)
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

// knownError returns the error of chunk i if an earlier call has found the chunk wrong, else nil.
func (d *digests) knownError(i uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wrongChunks[i]
}

// checkBeforeFetch returns the knownError of chunk i. It returns layout.ErrLimit if the chunk comes over a network and is larger than maxChunk:
// all of it would have to be fetched for any range in it.
func (d *digests) checkBeforeFetch(i uint64) error {
	if _, n := d.ChunkRange(i); d.isRemote && n > maxChunk {
		return fmt.Errorf("%w: a part of it can be trusted only once %d bytes were read (granularity %v): copy the file to this machine first, or set Options.Private",
			layout.ErrLimit, n, d.Granularity)
	}
	return d.knownError(i)
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
	from := f // keeps the source
	if private {
		from = &File{name: f.name, size: f.size, isRemote: f.isRemote, mapping: f.mapping, source: f.source, fetchedBytes: f.fetchedBytes, cache: f.cache, openingReader: f.openingReader}
	}
	if f.cache != nil && d.chunkBytes() <= maxChunk {
		// Chunks are verified twice: by arriving as they come from the source, and by d in the cache's file, where somebody may have
		// changed them since.
		arriving, _ := newDigests(f.name, f.size, trusted) // cannot fail: the same call has made d
		c := newChunks(arriving, from.fromSource)
		f.cache.SetFetch(func(ctx context.Context, p []byte, off int64) error { return c.read(ctx, p, uint64(off)) })
	}
	if private {
		return f.copyPrivately(ctx, d, from)
	}
	f.digests = d
	if d.isRemote = f.source != nil; d.isRemote {
		f.verifiedChunks = newChunks(d, f.read)
	}
	if f.cache != nil && raw.end > 0 {
		f.cache.Fetch(ctx, 0, raw.end) // fetches again what find has read, now verified; an error shows when it is next read
	}
	return nil
}

// unverified is a file before its digests are known.
type unverified struct {
	*File
	ctx context.Context
	end uint64 // where the last byte ends that came from the source
}

// Slice returns the n bytes at off, unverified. If there is no source, or if the cache has the bytes, it takes them from memory. Otherwise
// it reads them from the source, and does not write them to the cache. It notes in u.end how far it has read the source. It fails if the
// bytes leave the file, or if reading does.
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

// copyPrivately makes f a file in memory of this process alone, where nobody else can change bytes once they are verified. from is the file
// to copy: it has the source, cache and mapping that f had. copyPrivately copies the bytes outside the chunks. A chunk is copied later,
// when it is verified. It fails if allocating or reading does, and with layout.ErrLimit if more than mmapio.Trusted bytes follow the last
// chunk.
func (f *File) copyPrivately(ctx context.Context, d *digests, from *File) error {
	if rest := f.size - d.End; rest > mmapio.Trusted {
		return fmt.Errorf("%w: %d bytes that no digest covers", layout.ErrLimit, rest)
	}
	own, b, err := mmapio.Anonymous(f.name, int(f.size))
	if err != nil {
		return err
	}
	copy(b, d.Head)
	if d.End < f.size {
		if err := from.ReadAt(ctx, b[d.End:], d.End); err != nil {
			own.Close()
			return err
		}
	}
	f.copiedFrom, f.private, f.digests, f.mapping = from, b, d, own
	f.source, f.cache, f.openingReader = nil, nil, nil // only from has them
	return nil
}

// verify hashes, on all cores, the chunks that have some of the n bytes at off and are not yet verified. Bytes that no digest covers it only
// fetches into the cache. If the cache is full, verify returns nil, and ReadAt verifies what comes from the source. It returns nil also if
// the bytes leave the file. It fails if reading does, or if ctx ends. It fails for a wrong chunk, and again at each later call.
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
	var unverified []uint64
	for lo, hi := d.chunksWith(off, n); lo < hi; lo++ {
		if !d.isVerified(lo) {
			unverified = append(unverified, lo)
		}
	}
	workers := parallel.Cores()
	if d.isRemote { // workers wait for the network most of the time
		workers = max(workers, 8)
	}
	err := parallel.ForEach(min(workers, len(unverified)), parallel.Range(uint64(len(unverified))), func(k uint64) error {
		return f.verifyChunk(ctx, unverified[k])
	})
	if errors.Is(err, errCacheFull) {
		return nil
	}
	return err
}

// errCacheFull says that a chunk was not verified, since the cache's file cannot take it.
var errCacheFull = errors.New("the cache takes no more")

// verifyChunk reads chunk i, and compares its digest with the trusted one. Of several calls for the same chunk one reads, and the others
// wait. It fails if the digests differ, if an earlier call has found that, or if reading does. It fails with layout.ErrLimit if the chunk
// is too large to come over a network, and with errCacheFull if the cache cannot take it.
func (f *File) verifyChunk(ctx context.Context, i uint64) error {
	d := f.digests
	_, err := d.flights.Do(ctx, i, func(ctx context.Context) (none struct{}, err error) {
		if d.isVerified(i) {
			return none, nil
		}
		if err := d.checkBeforeFetch(i); err != nil {
			return none, err
		}
		h := d.NewHash()
		off, n := d.ChunkRange(i)
		if err := f.readUnverified(ctx, off, n, func(b []byte) { h.Write(b) }); err != nil {
			return none, err
		}
		return none, d.compare(i, h.Sum(nil))
	})
	return err
}

// readUnverified calls use with consecutive ranges b of the n bytes at off, before they are verified. b is valid only during the call. If f
// is a private copy, readUnverified first copies each range into f.private, which then has b. readUnverified fails if reading does, or with
// errCacheFull if the cache cannot take the bytes.
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
		b, err := f.mapping.Slice(off, n)
		if err == nil {
			use(b)
		}
		return err
	}
	var buf []byte
	if f.copiedFrom == nil {
		buf = mmapio.AlignedBytes(int(min(hashStep, n)))
	}
	for end := off + n; off < end; {
		b, read := buf[:min(uint64(len(buf)), end-off)], f.read
		if f.copiedFrom != nil { // one call at a time copies a chunk: see verifyChunk
			b, read = f.private[off:min(end, off+mmapio.Trusted)], f.copiedFrom.ReadAt
		}
		if err := read(ctx, b, off); err != nil {
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
