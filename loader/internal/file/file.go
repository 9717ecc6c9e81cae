// Package file has the bytes of one file of a model. They leave it by View or ReadAt: View and ReadAt check the bounds, make sure that
// the bytes are present and trusted, and slice or read.
//
// A file is memory, which may be mapped when it is first touched, or is read by system calls, or comes from a [Source]. A
// [Cache] has a file of this system that takes what comes from a Source. Digests let nothing out that was not verified.
//
// Methods touch mapped memory: their callers run them under [mmapio.Guard].
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

// Counted is a Source that counts what it fetches by itself.
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
	// Fetch writes the n bytes at off to the file, unless it has them. It reports false if the file cannot take
	// them, as on a full disk. They are then read from the Source.
	Fetch(ctx context.Context, off, n uint64) (cached bool, err error)
	// SetFetch makes Fetch ask fetch for bytes, which fills p with the bytes from off on, or fails. It is called before the first Fetch.
	SetFetch(fetch func(ctx context.Context, p []byte, off int64) error)
}

// File is the bytes of one file. Its methods may be called concurrently once it is opened.
type File struct {
	name           string
	size           uint64
	isRemote       bool            // a Source of the caller's reads what is not present
	mapping        *mmapio.Mapping // nil if all bytes come from the source
	source         Source          // nil if memory has all
	cache          Cache           // writes what comes from source to the file that mapping has; or nil
	fetchedBytes   *atomic.Uint64  // bytes that source has read; nil without a source
	counter        Counted         // counts instead of fetchedBytes; or nil
	cacheFull      atomic.Bool     // cache takes no more: source reads from now on
	openingReader  io.ReaderAt     // reads the file until it is opened; or nil
	digests        *digests        // nil if nothing is verified
	verifiedChunks *chunks         // verifies what comes from source; nil without digests or a source
	copiedFrom     *File           // the file that mapping is a private copy of; or nil
	private        []byte          // the bytes of mapping if it is a private copy, to write to
}

// New returns the file called name whose bytes memory has: it may map them, or read them by system calls. The file's Close closes memory.
func New(name string, memory *mmapio.Mapping) *File {
	return &File{name: name, size: memory.Size(), mapping: memory}
}

// ReadWhileOpening makes f read from r, by system calls, until EndOpening: an index takes few bytes, and the mapping can wait.
func (f *File) ReadWhileOpening(r io.ReaderAt) { f.openingReader = r }

// EndOpening ends what ReadWhileOpening began: from now on f reads from memory or its source. So does the file that f is a private copy
// of. It is called before others use f.
func (f *File) EndOpening() {
	f.openingReader = nil
	if f.copiedFrom != nil {
		f.copiedFrom.openingReader = nil
	}
}

// FromSource returns the file called name that source reads, over a network if remote is true. memory and cache may be nil. If there is
// a cache, its file takes what source reads, and memory maps that file. Memory without a cache has all bytes: then source only counts
// what it has fetched. The caller closes source.
func FromSource(name string, source Source, remote bool, memory *mmapio.Mapping, cache Cache) *File {
	counter, _ := source.(Counted)
	if memory != nil && cache == nil {
		return &File{name: name, size: memory.Size(), mapping: memory, counter: counter}
	}
	return &File{name: name, size: uint64(source.Size()), isRemote: remote, mapping: memory, source: source, cache: cache, counter: counter, fetchedBytes: new(atomic.Uint64)}
}

// Counts are numbers of bytes, and of chunks that were not the trusted ones. A chunk that was fetched twice counts twice.
type Counts struct {
	Fetched     uint64 // that the source has fetched: over a network if it is Counted, else the bytes that it was asked for
	Present     uint64 // that this disk had of a remote file when it was opened, if the source is Counted
	Hashed      uint64 // to verify them
	WrongChunks uint64
	Private     uint64 // verified bytes in memory of this process: of a private copy, or of recent chunks
}

// Counts returns what reading the file has cost so far.
func (f *File) Counts() (c Counts) {
	switch {
	case f.counter != nil:
		c.Fetched, c.Present = f.counter.Fetched(), f.counter.Present()
	case f.fetchedBytes != nil:
		c.Fetched = f.fetchedBytes.Load()
	}
	if f.digests != nil {
		c.Hashed, c.WrongChunks = f.digests.hashedBytes.Load(), f.digests.failures.Load()
	}
	switch {
	case f.copiedFrom != nil:
		c.Private = c.Hashed // each chunk is hashed when it is copied
	case f.verifiedChunks != nil:
		c.Private = uint64(f.verifiedChunks.recent.Counters().Used)
	}
	return c
}

// Name returns what errors call the file.
func (f *File) Name() string { return f.name }

// Size returns the length of the file in bytes.
func (f *File) Size() uint64 { return f.size }

// Mapping returns the file's memory, mapped or not, or nil if all bytes come from a source.
func (f *File) Mapping() *mmapio.Mapping { return f.mapping }

// InPlace reports whether View returns memory rather than nil. It may turn false once, and stays so: if the system refuses to map the
// file at the first read, or if the cache is full.
func (f *File) InPlace() bool { return f.mapping != nil && f.mapping.Aliased() && !f.cacheFull.Load() }

// Mapped reports whether the system maps the file now. It is false before the first read of a lazy mapping, and for memory on the heap.
func (f *File) Mapped() bool { return f.InPlace() && f.mapping.Mapped() && !f.mapping.Pending() }

// Remote reports whether a network fetches the bytes that are not in place.
func (f *File) Remote() bool { return f.isRemote }

// Fetches reports whether the file is in place and its bytes may have to be fetched into the cache first.
func (f *File) Fetches() bool { return f.cache != nil && f.InPlace() }

// Waits reports whether reading the file may wait for a network.
func (f *File) Waits() bool { return f.cache != nil || f.isRemote && !f.InPlace() }

// Has reports whether the cache has the n bytes at off. It is false without a cache.
func (f *File) Has(off, n uint64) bool { return f.cache != nil && f.cache.Has(off, n) }

// Close closes the file's memory and the memory of the file it is a copy of. It does not close the source. Views of the file must not be
// touched any more. It fails if closing memory does.
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

// View returns the n bytes at off without copying, read-only. It first fetches and verifies the bytes that need it. It returns nil without an
// error if InPlace is false, or becomes so: the caller then uses ReadAt. It fails if the bytes leave the file, cannot be fetched, or are
// not the trusted ones.
func (f *File) View(ctx context.Context, off, n uint64) ([]byte, error) {
	if !f.InPlace() {
		return nil, nil
	}
	if err := f.fetchAndVerify(ctx, off, n); err != nil || !f.InPlace() { // asked again: the cache may just have become full
		return nil, err
	}
	return f.mapping.Slice(off, n)
}

// ReadAt fills p with the bytes from off on, which it fetches and verifies first if need be. It fails if they are not all in the
// file, cannot be read, or are not the trusted ones.
func (f *File) ReadAt(ctx context.Context, p []byte, off uint64) error {
	if !layout.Within(off, uint64(len(p)), f.size) {
		return f.rangeError(off, uint64(len(p)))
	}
	if !f.verifiesReads() {
		if err := f.fetchAndVerify(ctx, off, uint64(len(p))); err != nil {
			return err
		}
	}
	if f.verifiesReads() { // asked again: fetchAndVerify may have found the cache full
		return f.verifiedChunks.read(ctx, p, off)
	}
	return f.read(ctx, p, off)
}

// verifiesReads reports whether f.verifiedChunks reads and verifies bytes each time that they are asked for. Otherwise the bytes are in place
// or have no digests, and fetchAndVerify comes before a read.
func (f *File) verifiesReads() bool { return f.verifiedChunks != nil && !f.InPlace() }

// read fills p with the bytes from off on, which lie in the file, and verifies nothing. It reads memory if the file has no source, or is in
// place: the caller then has fetched the bytes. Otherwise the cache fetches the bytes first. If there is no cache, or if the cache is full,
// read asks the source. It fails if reading or fetching does.
func (f *File) read(ctx context.Context, p []byte, off uint64) error {
	if f.openingReader != nil {
		return f.wrap(mmapio.ReadFull(f.openingReader, p, off))
	}
	if f.source != nil && !f.InPlace() {
		if f.mapping == nil { // there is no cache
			return f.fromSource(ctx, p, off)
		}
		cached, err := f.cache.Fetch(ctx, off, uint64(len(p)))
		if err != nil {
			return f.wrap(preferCause(ctx, err))
		}
		if !cached {
			return f.fromSource(ctx, p, off)
		}
	}
	n, err := f.mapping.ReadAt(p, int64(off))
	if n == len(p) { // whatever err says, such as io.EOF
		return nil
	}
	return f.wrap(err)
}

// fromSource fills p with the source's bytes from off on and counts them as fetched. If the source fails, it returns the
// source's error with the file's name, or the cause of ctx if ctx has ended.
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

// wrap returns err as an *fs.PathError that names the file, or err itself if it is nil or names a file already.
func (f *File) wrap(err error) error {
	switch err.(type) {
	case nil, *mmapio.FaultError, *fs.PathError, *layout.IntegrityError:
		return err
	}
	return &fs.PathError{Op: "read", Path: f.name, Err: err}
}

// Copy returns the n bytes at off in new memory, which belongs to the caller. It takes memory as mmapio.Gather does: all at once for few
// bytes, or if Probe reports that they are sure to exist. For other bytes it takes memory as they arrive. It fails if the bytes are not all
// in the file, or if Probe or ReadAt does.
func (f *File) Copy(ctx context.Context, off, n uint64) ([]byte, error) {
	if !layout.Within(off, n, f.size) {
		return nil, f.rangeError(off, n)
	}
	return mmapio.Gather(n, func() (bool, error) { return f.Probe(ctx, off, n) }, func(dst []byte, at uint64) error {
		return f.ReadAt(ctx, dst, off+at)
	})
}

// Probe makes sure that the last of n bytes at off exists. sizeIsSure is true if the others then exist too, as in a file of this machine.
// The caller may then allocate memory for all at once. sizeIsSure is false for a server, which may claim any size. If there is a cache that
// takes bytes, Probe fetches all n bytes into the cache. Probe fails if the last byte is missing, or if fetching or reading does.
func (f *File) Probe(ctx context.Context, off, n uint64) (sizeIsSure bool, err error) {
	if f.Fetches() { // the cache's file has its full size before the bytes arrive: only fetching tells
		err := f.fetchAndVerify(ctx, off, n)
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

// Ensure fetches and verifies the n bytes at off, if they need it. Unlike fetchAndVerify it also verifies bytes of a source that go to no
// cache: it reads them, and drops what it has read. It fails if reading does, or with a *layout.IntegrityError if a chunk is not the trusted one.
func (f *File) Ensure(ctx context.Context, off, n uint64) error {
	if !f.verifiesReads() {
		return f.fetchAndVerify(ctx, off, n)
	}
	_, err := f.Copy(ctx, off, n)
	return err
}

// fetchAndVerify fetches the n bytes at off into the cache, if there is one. If the file has digests, it calls verify, which both fetches and
// verifies the bytes. If the cache is full, it returns nil with unverified bytes: InPlace is false from then on, and ReadAt verifies. It also
// returns nil if the bytes are not all in the file: reading them fails. It fails if fetching does, or for a chunk that is not the trusted one.
func (f *File) fetchAndVerify(ctx context.Context, off, n uint64) error {
	if f.digests != nil {
		if f.digests.allVerified(off, n) { // the usual case, which takes no lock
			return nil
		}
		return f.verify(ctx, off, n)
	}
	if f.cache != nil && f.InPlace() && layout.Within(off, n, f.size) {
		return f.fetchToCache(ctx, off, n)
	}
	return nil
}

// fetchToCache makes the cache fetch the n bytes at off, unless it has them. It fails if fetching does. A full disk is no error: it
// sets f.cacheFull, after which the source is read and not the cache.
func (f *File) fetchToCache(ctx context.Context, off, n uint64) error {
	cached, err := f.cache.Fetch(ctx, off, n)
	if err == nil && !cached { // the disk is full
		f.cacheFull.Store(true)
	}
	return f.wrap(preferCause(ctx, err))
}

// preferCause returns the cause of ctx in place of err, if ctx has ended and err is not nil. It returns err if err wraps the cause,
// and so says more.
func preferCause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && why != nil && !errors.Is(err, why) {
		return why
	}
	return err
}

// Resident returns how many of the n bytes at off are in memory of the system. It fails with errors.ErrUnsupported if the
// file is not mapped or the platform cannot tell.
func (f *File) Resident(off, n uint64) (uint64, error) {
	if f.mapping == nil {
		return 0, f.wrap(errors.ErrUnsupported)
	}
	return f.mapping.Resident(off, n)
}

// Warm fetches and verifies the n bytes at off, and reads their pages into memory. InPlace must be true when it is called. isCold says that
// some of their pages are not known to be in memory. If the cache turns out to be full, InPlace becomes false, and Warm returns nil without
// reading. It fails if reading does, or if a chunk is not the trusted one.
func (f *File) Warm(ctx context.Context, off, n uint64, isCold bool) error {
	if f.cache != nil { // first, since the pages of bytes that are not fetched have nothing
		if err := f.fetchAndVerify(ctx, off, n); err != nil || !f.InPlace() {
			return err
		}
	}
	if isCold {
		f.mapping.Advise(mmapio.WillNeed, off, n) // a hint: Populate reads the pages even if this fails
	}
	if err := f.mapping.Populate(off, n); err != nil {
		return err
	}
	return f.fetchAndVerify(ctx, off, n) // finds all verified already if there is a cache
}

// Input returns the file for a decoder, whose reads fail once ctx ends.
func (f *File) Input(ctx context.Context) layout.Input { return input{f, ctx} }

type input struct {
	*File
	ctx context.Context
}

// Slice returns the n bytes at off: a view if the file is in place and EndOpening was called, else a copy. It fails if View or Copy does.
func (in input) Slice(off, n uint64) ([]byte, error) {
	if in.openingReader == nil { // else nothing is mapped yet: see ReadWhileOpening
		if b, err := in.View(in.ctx, off, n); b != nil || err != nil {
			return b, err
		}
	}
	return in.Copy(in.ctx, off, n)
}
