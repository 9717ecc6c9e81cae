// Package file has the bytes of one file of a model. They leave it by View or ReadAt: these check the bounds, make sure that
// the bytes are present and trusted, and slice or read.
//
// A file is memory, which may be mapped when it is first touched, or is read by system calls, or comes from a [Source]. A
// [Cache] has a file of this system that takes what comes from a Source. Digests let nothing out that was not verified.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Source reads one file by range. Its methods may be called concurrently.
type Source interface {
	// Size returns the length of the file in bytes.
	Size() int64
	// ReadAt fills p with the bytes from off on, or fails. It ends with ctx.
	ReadAt(ctx context.Context, p []byte, off int64) error
	Close() error
}

// Counted is a Source that counts what it brings by itself.
type Counted interface {
	Fetched() uint64 // bytes that came over a network
	Present() uint64 // bytes that this disk had when the source was opened
}

// Identified is a Source that knows its bytes from others.
type Identified interface {
	ContentID() string // a digest, or an address with what tells versions apart there; "" if nothing does
}

// Cache is a file of this system that takes what comes from a Source.
type Cache interface {
	// Has reports whether the file has the n bytes at off.
	Has(off, n uint64) bool
	// Bring writes the n bytes at off to the file, unless it has them. It reports false if the file cannot take
	// them. They are then read from the Source.
	Bring(ctx context.Context, off, n uint64) (cached bool, err error)
	// Fetch makes Bring ask fetch for bytes, which fills p with those from off on, or fails. It is called before the first Bring.
	Fetch(fetch func(ctx context.Context, p []byte, off int64) error)
}

// File is the bytes of one file. Its methods may be called concurrently once it is opened.
type File struct {
	name           string
	size           uint64
	isRemote       bool            // a Source of the caller's reads what is not present
	mapping        *mmapio.Mapping // nil if all bytes come from the source
	source         Source          // nil if memory has all
	cache          Cache           // of what comes from source to memory; or nil
	fetchedBytes   *atomic.Uint64  // bytes that source has read; nil without a source
	counter        Counted         // counts instead of fetched; or nil
	cacheFull      atomic.Bool     // cache takes no more: source reads from now on
	openingReader  io.ReaderAt     // reads the file until it is opened; or nil
	digests        *digests        // nil if nothing is verified
	verifiedChunks *chunks         // of what comes from source, verified; nil without digests
	copiedFrom     *File           // that memory is a private copy of; or nil
	private        []byte          // memory, to be written to
}

// New returns the file called name whose bytes are in memory, or read through it by system calls. It takes memory over.
func New(name string, memory *mmapio.Mapping) *File {
	return &File{name: name, size: memory.Size(), mapping: memory}
}

// ReadWhileOpening makes f read from r, by system calls, until EndOpening: an index takes few bytes, and the mapping can wait.
func (f *File) ReadWhileOpening(r io.ReaderAt) { f.openingReader = r }

// EndOpening ends ReadWhileOpening. It is called before others use f.
func (f *File) EndOpening() {
	f.openingReader = nil
	if f.copiedFrom != nil {
		f.copiedFrom.openingReader = nil
	}
}

// FromSource returns the file called name that source reads, over a network if remote is true. The caller closes source.
func FromSource(name string, source Source, remote bool) *File {
	f := &File{name: name, size: uint64(source.Size()), isRemote: remote, source: source, fetchedBytes: new(atomic.Uint64)}
	f.CountedBy(source)
	return f
}

// FromCache returns the remote file called name that source reads. The file of cache takes what source reads, and memory
// maps that file. The caller closes source.
func FromCache(name string, source Source, memory *mmapio.Mapping, cache Cache) *File {
	f := &File{name: name, size: memory.Size(), isRemote: true, source: source, fetchedBytes: new(atomic.Uint64), mapping: memory, cache: cache}
	f.CountedBy(source)
	return f
}

// CountedBy lets source count what came from where, if it is Counted. It is called before others use f.
func (f *File) CountedBy(source Source) { f.counter, _ = source.(Counted) }

// Fetched returns how many bytes the source has read so far.
func (f *File) Fetched() uint64 {
	switch {
	case f.counter != nil:
		return f.counter.Fetched()
	case f.fetchedBytes != nil:
		return f.fetchedBytes.Load()
	}
	return 0
}

// Present returns how many bytes of a remote file this disk had when it was opened, as far as its source counts that.
func (f *File) Present() uint64 {
	if f.counter == nil {
		return 0
	}
	return f.counter.Present()
}

// Name returns what errors call the file.
func (f *File) Name() string { return f.name }

// Size returns the length of the file in bytes.
func (f *File) Size() uint64 { return f.size }

// Mapping returns the file's memory, or nil.
func (f *File) Mapping() *mmapio.Mapping { return f.mapping }

// InPlace reports whether View returns memory. Only the first touch may end that: the system refuses to map the file, or
// the disk takes no more.
func (f *File) InPlace() bool { return f.mapping != nil && f.mapping.Aliased() && !f.cacheFull.Load() }

// Mapped reports whether the system maps the file now.
func (f *File) Mapped() bool { return f.InPlace() && f.mapping.Mapped() && !f.mapping.Pending() }

// Remote reports whether the file is read over a network, as far as it is not in place.
func (f *File) Remote() bool { return f.isRemote }

// Fetches reports whether bytes of a file in place may have to be fetched first.
func (f *File) Fetches() bool { return f.cache != nil && f.InPlace() }

// Waits reports whether reading the file may wait for a network.
func (f *File) Waits() bool { return f.cache != nil || f.isRemote && !f.InPlace() }

// Has reports whether n bytes at off of a file that Fetches are present.
func (f *File) Has(off, n uint64) bool { return f.cache != nil && f.cache.Has(off, n) }

// Close ends the file. Views of it must not be touched any more. It fails if closing what it reads from does.
func (f *File) Close() error {
	var errs []error
	if f.mapping != nil {
		errs = append(errs, f.mapping.Close())
	}
	if f.copiedFrom != nil {
		errs = append(errs, f.copiedFrom.Close())
	}
	return errors.Join(errs...)
}

// View returns the n bytes at off without copying, read-only. It first fetches and verifies those that need it. It
// returns nil without an error if the file is not in memory: then ReadAt reads the bytes.
func (f *File) View(ctx context.Context, off, n uint64) ([]byte, error) {
	if !f.InPlace() {
		return nil, nil
	}
	if f.digests != nil || f.cache != nil {
		if err := f.ensure(ctx, off, n); err != nil {
			return nil, err
		}
		if !f.InPlace() { // any more: the cache has just become full
			return nil, nil
		}
	}
	return f.mapping.Slice(off, n)
}

// ReadAt fills p with the bytes from off on, which it fetches and verifies first if need be. It fails if they leave the
// file, cannot be read, or are not the trusted ones.
func (f *File) ReadAt(ctx context.Context, p []byte, off uint64) error {
	if !layout.Within(off, uint64(len(p)), f.size) {
		return f.rangeError(off, uint64(len(p)))
	}
	if f.verifiedChunks == nil || f.InPlace() {
		if err := f.ensure(ctx, off, uint64(len(p))); err != nil {
			return err
		}
	}
	if f.verifiedChunks != nil && !f.InPlace() { // asked again, for the cache may have become full
		return f.verifiedChunks.read(ctx, p, off)
	}
	return f.read(ctx, p, off)
}

// read fills p with the bytes from off on and verifies nothing. It reads them from memory if they are there, else from
// the cache, which fetches them, or from the source. It fails if reading or fetching does.
func (f *File) read(ctx context.Context, p []byte, off uint64) error {
	switch {
	case f.openingReader != nil:
		return f.wrap(mmapio.ReadFull(f.openingReader, p, off))
	case f.source == nil || f.InPlace(): // memory reads them, below
	case f.mapping == nil:
		return f.fromSource(ctx, p, off)
	default:
		if cached, err := f.cache.Bring(ctx, off, uint64(len(p))); err != nil {
			return f.wrap(preferCause(ctx, err))
		} else if !cached {
			return f.fromSource(ctx, p, off)
		}
		// The cache has written them to the file of memory.
	}
	n, err := f.mapping.ReadAt(p, int64(off))
	if n == len(p) { // whatever err says, such as io.EOF
		return nil
	}
	return f.wrap(err)
}

// fromSource fills p with what the source has from off on. It fails if the source does, and counts the bytes otherwise.
func (f *File) fromSource(ctx context.Context, p []byte, off uint64) error {
	if len(p) == 0 {
		return nil
	}
	err := f.source.ReadAt(ctx, p, int64(off))
	if err == nil {
		f.fetchedBytes.Add(uint64(len(p)))
	}
	return f.wrap(preferCause(ctx, err))
}

// rangeError returns the error of a range of n bytes at off that leaves the file.
func (f *File) rangeError(off, n uint64) error {
	return f.wrap(fmt.Errorf("%w: offset %d, length %d, size %d", mmapio.ErrRange, off, n, f.size))
}

// wrap adds the name of the file to an error of reading, unless it has one.
func (f *File) wrap(err error) error {
	switch err.(type) {
	case nil, *mmapio.FaultError, *fs.PathError, *layout.IntegrityError:
		return err
	}
	return &fs.PathError{Op: "read", Path: f.name, Err: err}
}

// Copy returns the n bytes at off in memory of the caller's own. Memory is taken as bytes arrive. It fails if reading does.
func (f *File) Copy(ctx context.Context, off, n uint64) ([]byte, error) {
	if !layout.Within(off, n, f.size) {
		return nil, f.rangeError(off, n)
	}
	return mmapio.Gather(n, func() (bool, error) { return f.Probe(ctx, off, n) }, func(dst []byte, at uint64) error {
		return f.ReadAt(ctx, dst, off+at)
	})
}

// Probe makes sure that the last of n bytes at off exists. It reports whether memory for all may then be taken at
// once: the system, not a server, vouches for them. It fails if the file has fewer bytes.
func (f *File) Probe(ctx context.Context, off, n uint64) (sure bool, err error) {
	if f.Fetches() { // the cache's file has its full size before the bytes arrive: only fetching tells
		err := f.ensure(ctx, off, n)
		return err == nil && f.InPlace(), err
	}
	if f.openingReader == nil && f.source == nil {
		return f.mapping.Probe(off, n)
	}
	if n > 0 {
		err = f.ReadAt(ctx, make([]byte, 1), off+n-1)
	}
	return err == nil && !f.isRemote, err
}

// Ensure fetches and verifies the n bytes at off. If the file is not in place, it reads them and drops what it has
// read. The error is that of reading, or a *layout.IntegrityError.
func (f *File) Ensure(ctx context.Context, off, n uint64) error {
	if f.verifiedChunks == nil || f.InPlace() {
		return f.ensure(ctx, off, n)
	}
	_, err := f.Copy(ctx, off, n)
	return err
}

// ensure verifies the n bytes at off if the file has digests, which fetches them into a cache. Without digests it only
// fetches them, if there is a cache. It does nothing for bytes that are verified or present already. It fails if
// fetching does, or for a wrong chunk.
func (f *File) ensure(ctx context.Context, off, n uint64) error {
	if f.digests != nil {
		if f.digests.allVerified(off, n) { // the usual case, in one word of bits
			return nil
		}
		return f.verify(ctx, off, n)
	}
	if f.cache != nil && f.InPlace() && layout.Within(off, n, f.size) {
		return f.fetchToCache(ctx, off, n)
	}
	return nil
}

// fetchToCache makes the cache fetch the n bytes at off, unless it has them. A full disk is no error: it sets f.cacheFull, after
// which the source is read and not the cache.
func (f *File) fetchToCache(ctx context.Context, off, n uint64) error {
	cached, err := f.cache.Bring(ctx, off, n)
	if err == nil && !cached {
		f.cacheFull.Store(true)
	}
	return f.wrap(preferCause(ctx, err))
}

// preferCause returns the cause of ctx in place of err, if ctx has ended and err is not nil. Otherwise it returns err.
func preferCause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && why != nil && !errors.Is(err, why) {
		return why
	}
	return err
}

// Resident returns how many of the n bytes at off are in memory of the system. It fails if the platform cannot tell.
func (f *File) Resident(off, n uint64) (uint64, error) {
	if f.mapping == nil {
		return 0, f.wrap(errors.ErrUnsupported)
	}
	return f.mapping.Resident(off, n)
}

// Warm fetches the n bytes at off of a file in place, brings their pages into memory, and verifies them. cold says
// that some pages are not known to be in memory. It does nothing more once a full cache has ended that the file is in
// place. It fails if reading does, or for a wrong chunk.
func (f *File) Warm(ctx context.Context, off, n uint64, cold bool) error {
	if f.cache != nil {
		if err := f.ensure(ctx, off, n); err != nil || !f.InPlace() {
			return err
		}
	}
	if cold {
		f.mapping.Advise(mmapio.WillNeed, off, n) // Populate does without, too
	}
	if err := f.mapping.Populate(off, n); err != nil {
		return err
	}
	return f.ensure(ctx, off, n)
}

// Input returns the file for a decoder, whose reads end with ctx.
func (f *File) Input(ctx context.Context) layout.Input { return input{f, ctx} }

type input struct {
	*File
	ctx context.Context
}

// Slice returns the n bytes at off, in place or as a copy.
func (in input) Slice(off, n uint64) ([]byte, error) {
	if in.openingReader == nil { // else nothing is mapped yet: see ReadWhileOpening
		if b, err := in.View(in.ctx, off, n); b != nil || err != nil {
			return b, err
		}
	}
	return in.Copy(in.ctx, off, n)
}
