package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// file is an open file of a folder: complete in a cache, incomplete in this module's cache, or (with both complete and partial nil)
// on its server only.
type file struct {
	*folder
	object
	complete *os.File
	partial  *sparse.File

	sourceMu sync.Mutex
	source   Source // nil until bytes are missing

	fetched       atomic.Uint64 // bytes from the server
	presentAtOpen uint64        // bytes that the cache had at first

	verifiedFetch atomic.Pointer[sparse.Fetch] // set by SetFetch
	endFill       func()                       // ends the background fetch of this file and the others of its model, or nil

	failedToOpen atomic.Bool // no model could be opened from it, or none yet

	finalizing       parallel.Group     // see finalize
	cancelFinalizing context.CancelFunc // nil unless finalize was called
}

// maxMovedAtClose is the maximum size of a file that Close moves to its final path, in bytes: its digest takes a fraction of a
// second. Larger ones are moved by Pull, or in the background when they are next opened.
var maxMovedAtClose int64 = 16 << 20

var _ interface {
	loader.Source
	loader.Cache
} = (*file)(nil)

// stored returns the file as a model takes it. Its Source is f. If the cache has an incomplete file, Local is that file, and Cache is f.
// The model then fills the incomplete file by the methods of f. Otherwise Local is the complete file, or nil if there is none.
func (f *file) stored() loader.FolderFile {
	s := loader.FolderFile{Name: f.Name(), Source: f, Local: f.complete}
	if f.partial != nil {
		s.Local, s.Cache = f.partial.Data(), f
	}
	return s
}

// Name returns the file's address.
func (f *file) Name() string { return f.object.name }

// Size returns the length of the file in bytes.
func (f *file) Size() int64 { return f.object.size }

// headBytes returns the size of the file's head in bytes: a read of any part of the head fetches all of it in one request.
func (f *file) headBytes() int64 { return min(f.Size(), sparse.HeadBytes) }

// ReadAt fills p with the server's bytes from off on, and caches nothing. It fails if the server does. If the cache has bytes of another
// version, it removes them, and fails with mmapio.ErrChanged.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) error {
	err := f.readFromServer(ctx, p, off)
	if f.partial != nil {
		err = f.partial.CheckFetched(err)
	}
	return err
}

// readFromServer fills p with the server's bytes from off on, and adds their number to f.fetched. It does not look into the cache. It
// fails if connecting or reading does.
func (f *file) readFromServer(ctx context.Context, p []byte, off int64) error {
	source, err := f.connectedSource(ctx)
	if err == nil {
		err = source.ReadAt(ctx, p, off)
	}
	if err == nil {
		f.fetched.Add(uint64(len(p)))
	}
	return err
}

// Fetched returns how many bytes have come from the server so far.
func (f *file) Fetched() uint64 { return f.fetched.Load() }

// Present returns how many bytes the cache had when the file was opened.
func (f *file) Present() uint64 { return f.presentAtOpen }

// present returns how many bytes the cache has.
func (f *file) present() int64 {
	switch {
	case f.complete != nil:
		return f.Size()
	case f.partial != nil:
		return f.partial.Have()
	}
	return 0
}

// Fetch fetches into the cache those of the n bytes at off that the cache lacks. cached is true if the cache then has all of them. cached
// is false without an error if the cache takes no more bytes. The caller must know that f.partial, the incomplete file in the cache, is not
// nil. Fetch fails if fetching does.
func (f *file) Fetch(ctx context.Context, off, n uint64) (cached bool, err error) {
	return f.partial.Fetch(ctx, int64(off), int64(n))
}

// Has reports whether the cache's incomplete file has the n bytes at off.
func (f *file) Has(off, n uint64) bool { return f.partial.Has(int64(off), int64(n)) }

// SetFetch makes verified the function by which the cache gets all missing bytes from now on. verified fills p with verified bytes from off
// on. SetFetch itself fetches nothing. It implements loader.Cache.
func (f *file) SetFetch(verified func(ctx context.Context, p []byte, off int64) error) {
	fetch := sparse.Fetch(verified)
	f.verifiedFetch.Store(&fetch)
}

// fetchForCache fills p with the file's bytes from off on, for the cache. It calls f.verifiedFetch if SetFetch has set that. Otherwise it
// reads from the server. It fails if the one or the other does.
func (f *file) fetchForCache(ctx context.Context, p []byte, off int64) error {
	if verified := f.verifiedFetch.Load(); verified != nil {
		return (*verified)(ctx, p, off)
	}
	return f.readFromServer(ctx, p, off)
}

// readThroughCache fills p with the file's bytes from off on, from the cache or else from the server. It also writes bytes of the server to
// the cache. With Options.Loader.Trust it writes none before SetFetch has set f.verifiedFetch, which verifies them. It fails if reading the
// cache's file or the server does.
func (f *file) readThroughCache(ctx context.Context, p []byte, off int64) error {
	if f.complete != nil {
		return mmapio.ReadFull(f.complete, p, uint64(off))
	}
	// f.partial.ReadAt caches what it fetches: while that is not verified, f.partial is read only where it has all bytes already.
	mayCache := f.opts.Loader.Trust == nil || f.verifiedFetch.Load() != nil
	if f.partial != nil && (mayCache || f.partial.Has(off, int64(len(p)))) {
		return f.partial.ReadAt(ctx, p, off)
	}
	return f.readFromServer(ctx, p, off)
}

// cachedSource is a file as a Source. Unlike the file's own ReadAt, ReadAt of cachedSource uses the cache.
type cachedSource struct{ *file }

// ReadAt fills p with the file's bytes from off on, by readThroughCache.
func (c cachedSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	return c.readThroughCache(ctx, p, off)
}

// connectedSource returns the source that reads from the server. The first call connects it, for the version of the bytes that the
// cache has, if any. It fails if connecting does; the next call tries again.
func (f *file) connectedSource(ctx context.Context) (Source, error) {
	f.sourceMu.Lock()
	defer f.sourceMu.Unlock()
	if f.source == nil {
		version := ""
		if f.partial != nil {
			version = f.partial.Version()
		}
		source, err := f.connect(ctx, version)
		if err != nil {
			return nil, err
		}
		f.source = source
	}
	return f.source, nil
}

// Version returns the version of the file's bytes: completeVersion for a complete file, else the version of the incomplete file in the cache.
// Without a cache it returns the server's. It returns "" if the version is not known yet.
func (f *file) Version() string {
	switch {
	case f.complete != nil:
		return completeVersion
	case f.partial != nil:
		return f.partial.Version()
	}
	return f.sourceVersion()
}

// completeVersion is the version of every complete file: its id tells it from others.
const completeVersion = "whole"

// sourceVersion returns the version of the bytes that the server sends. It returns "" if the server tells none, and before
// connectedSource has connected.
func (f *file) sourceVersion() string {
	f.sourceMu.Lock()
	defer f.sourceMu.Unlock()
	return versionOf(f.source)
}

// fetchRest fetches all bytes that the cache lacks, and moves the file to its final path in the cache. If the file is complete in some
// cache, fetchRest makes a link or copy at the final path instead. progress may be nil; fetchRest calls it as bytes come. fetchRest fails
// for content without an id, if fetching does, or if the cache cannot be written to.
func (f *file) fetchRest(ctx context.Context, progress func(have, size int64)) error {
	switch {
	case f.complete != nil:
		return f.linkOrCopyToOwnPath(ctx)
	case f.id == "":
		return fmt.Errorf("%w: the server does not tell its versions apart", loader.ErrUnsupported)
	case f.partial == nil:
		return fmt.Errorf("no cache can be written to: %w", fs.ErrPermission)
	}
	if err := f.partial.Fill(ctx, progress); err != nil {
		return err
	}
	return f.moveToFinalPath(ctx, ctx)
}

// finalize begins to move a file whose bytes are all present to its final path, in the background, until Close cancels it. It logs
// how that ends. If moving fails, the file stays where it is.
func (f *file) finalize() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancelFinalizing = cancel
	f.finalizing.Go(func() error {
		if err := f.moveToFinalPath(ctx, ctx); err == nil {
			f.opts.logger().Debug("file is complete in the cache", "file", f.Name())
		} else if ctx.Err() == nil {
			f.opts.logger().Warn("file stays incomplete in the cache", "file", f.Name(), "reason", err)
		}
		return nil
	})
}

// release closes the file and its source. Unlike Close it moves nothing to the final path. It fails if closing the file does. It ignores an
// error of closing the source.
func (f *file) release() error {
	defer func() { // also if closing f.partial panics, as it does if a callback of the caller's has panicked
		f.sourceMu.Lock()
		defer f.sourceMu.Unlock()
		if f.source != nil {
			f.source.Close()
		}
	}()
	switch {
	case f.complete != nil:
		return f.complete.Close()
	case f.partial != nil:
		return f.partial.Close()
	}
	return nil
}

// Close ends what runs in the background, and closes the file and its source. If finalize is moving the file, Close cancels that and waits
// for its end. Otherwise a file may have all its bytes and not be at its final path yet. Close removes such a file if no model could be opened
// from it, and moves it there if it has at most maxMovedAtClose bytes. Close waits for no other process: the file stays where it is if another
// process has the lock of the final path, or has put other content into the file. Close fails if moving, removing or closing does.
func (f *file) Close() (err error) {
	defer func() { err = errors.Join(err, f.release()) }() // also if a callback of the caller's panics in what follows
	if f.endFill != nil {
		f.endFill()
	}
	if f.cancelFinalizing != nil {
		f.cancelFinalizing()
		f.finalizing.Wait()
		return nil
	}
	if f.partial == nil || f.partial.Have() < f.object.size || f.partial.Finished() {
		return nil
	}
	if f.failedToOpen.Load() {
		return f.partial.Remove()
	}
	if f.object.size > maxMovedAtClose {
		return nil
	}
	err = f.moveToFinalPath(context.Background(), tryLock)
	if err == nil || errors.Is(err, errBusy) || errors.Is(err, sparse.ErrOtherContent) { // the other process will complete the file
		return nil
	}
	return fmt.Errorf("%s: %w", f.Name(), err)
}

// moveToFinalPath checks the digest of the incomplete file, and renames the file to its final path in the cache. All bytes must be present.
// If another process has made the file at the final path meanwhile, moveToFinalPath removes the incomplete one. It fails for a wrong
// digest, and when ctx ends. While another process has the lock of the path, it waits. When lockCtx ends, it fails with the cause of
// lockCtx.
func (f *file) moveToFinalPath(ctx, lockCtx context.Context) error {
	err := f.createUnderLock(lockCtx, func() error {
		return f.partial.Finish(f.paths.path, func(r io.Reader) error { return f.checkDigest(ctx, r) })
	})
	if err == nil && !f.partial.Finished() { // another process was first
		err = f.partial.Remove()
	}
	return err
}

// linkOrCopyToOwnPath makes f.complete, an open file, available at f's own path in the cache. It does nothing if f.complete was opened at
// that path, or at its name in a snapshot. Otherwise f.complete may lie in another program's cache. linkOrCopyToOwnPath makes a hard link
// to it. If the system refuses that, it makes a copy and checks the copy's digest. It fails if neither link nor copy can be made, or with
// layout.ErrChecksum for a wrong digest.
func (f *file) linkOrCopyToOwnPath(ctx context.Context) error {
	if name := f.complete.Name(); name == f.paths.path.String() || name == f.paths.name.String() {
		return nil
	}
	return f.createUnderLock(ctx, func() error {
		if f.paths.path.Link(f.complete) == nil {
			return nil
		}
		// No hard link can be made, as on another file system: copy.
		incomplete, err := f.incompleteFile(f.readThroughCache, f.Version)
		if err != nil {
			return err
		}
		defer incomplete.Close()
		if err := incomplete.Fill(ctx, nil); err != nil {
			return err
		}
		return incomplete.Finish(f.paths.path, func(r io.Reader) error { return f.checkDigest(ctx, r) })
	})
}
