package remote

import (
	"context"
	"errors"
	"fmt"
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
	nameInFolder string // name in the folder
	complete     *os.File
	partial      *sparse.File

	sourceMu sync.Mutex
	source   Source // nil until bytes are missing

	fetched       atomic.Uint64 // bytes from the server
	presentAtOpen uint64        // bytes that the cache had at first

	verifiedFetch atomic.Pointer[sparse.Fetch] // see Fetch

	failedToOpen atomic.Bool // opening has not found a model in it

	finalizing       parallel.Group // see finalize
	cancelFinalizing context.CancelFunc
}

// maxMovedAtClose is the maximum size of a file that Close moves to its final path, in bytes: its digest takes a fraction of a
// second. Larger ones are moved by Pull, or in the background when they are next opened.
var maxMovedAtClose int64 = 16 << 20

var _ interface {
	loader.Source
	loader.Cache
} = (*file)(nil)

// stored returns the file for a model: the source of missing bytes, and the file of the cache that has the others, if any.
func (f *file) stored() loader.Stored {
	s := loader.Stored{Name: f.Name(), Source: f, Local: f.complete}
	if f.partial != nil {
		s.Local, s.Cache = f.partial.Data(), f
	}
	return s
}

// Name returns the file's address.
func (f *file) Name() string { return f.object.name }

// Size returns the length of the file in bytes.
func (f *file) Size() int64 { return f.object.size }

// headBytes returns how many bytes of the file's beginning one request brings: as a read of a part of them does.
func (f *file) headBytes() int64 { return min(f.Size(), sparse.HeadBytes) }

// ReadAt fills p with the server's bytes from off on, and caches nothing. It fails if the server does, and with
// mmapio.ErrChanged if the cache has bytes of another version.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) error {
	err := f.readFromServer(ctx, p, off)
	if f.partial != nil {
		err = f.partial.CheckFetched(err)
	}
	return err
}

// readFromServer fills p with the server's bytes from off on, and counts them. It does not look into the cache. It fails if the
// server does.
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

// Fetched returns how many bytes came from the server so far.
func (f *file) Fetched() uint64 { return f.fetched.Load() }

// Present returns how many bytes the cache had when the file was opened.
func (f *file) Present() uint64 { return f.presentAtOpen }

// Bring fetches those of the n bytes at off that the cache lacks, into the cache. It reports false if the disk is full. It fails
// if fetching does.
func (f *file) Bring(ctx context.Context, off, n uint64) (cached bool, err error) {
	return f.partial.Bring(ctx, int64(off), int64(n))
}

// Has reports whether the cache has the n bytes at off.
func (f *file) Has(off, n uint64) bool { return f.partial.Has(int64(off), int64(n)) }

// Fetch makes verified the only source of bytes for the cache from now on.
func (f *file) Fetch(verified func(ctx context.Context, p []byte, off int64) error) {
	fetch := sparse.Fetch(verified)
	f.verifiedFetch.Store(&fetch)
}

// fetchForCache fills p with the file's bytes from off on, for the cache: by the function that Fetch was given, or else from
// the server. It fails if that does.
func (f *file) fetchForCache(ctx context.Context, p []byte, off int64) error {
	if verified := f.verifiedFetch.Load(); verified != nil {
		return (*verified)(ctx, p, off)
	}
	return f.readFromServer(ctx, p, off)
}

// readThroughCache fills p with the file's bytes from off on: from the cache, or else from the server. It caches what the server
// sends, unless that has to be verified first. It fails if reading or fetching does.
func (f *file) readThroughCache(ctx context.Context, p []byte, off int64) error {
	if f.complete != nil {
		return mmapio.ReadFull(f.complete, p, uint64(off))
	}
	// Without Trust, or by a verified fetch, bytes may go into the cache; else only the cache's own are read there.
	trusting := f.opts.Loader.Trust == nil || f.verifiedFetch.Load() != nil
	if f.partial != nil && (trusting || f.partial.Has(off, int64(len(p)))) {
		return f.partial.ReadAt(ctx, p, off)
	}
	return f.readFromServer(ctx, p, off)
}

// cachedSource is a file as a Source. Unlike the file's own ReadAt, that of cachedSource uses the cache.
type cachedSource struct{ *file }

// ReadAt does what readThroughCache does.
func (c cachedSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	return c.readThroughCache(ctx, p, off)
}

// connectedSource returns the source that reads from the server. The first call connects to the server, for the version that the
// cache has bytes of. It fails if connecting does; the next call tries again.
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

// ContentID names the content: its digest, or its address with a strong validator. It is "" if the server has neither.
func (f *file) ContentID() string {
	if f.id == "" {
		return ""
	}
	return f.partialName()
}

// Version returns the version of the file's bytes, as versionOf does: completeVersion, that of the incomplete file in the cache,
// or without one the server's.
func (f *file) Version() string {
	switch {
	case f.complete != nil:
		return completeVersion
	case f.partial != nil:
		return f.partial.Version()
	}
	return f.sourceVersion()
}

// completeVersion is the version of a complete file. Its digest tells it from others.
const completeVersion = "whole"

// sourceVersion returns the version that the server sends, or "" before connectedSource is called: see versionOf.
func (f *file) sourceVersion() string {
	f.sourceMu.Lock()
	defer f.sourceMu.Unlock()
	return versionOf(f.source)
}

// fetchRest fetches all bytes that the cache lacks, and moves the file to its final path there. A file that another cache has
// complete it links or copies to that path. It fails if fetching does, or if there is no cache for this file: the content has no
// id, or the cache cannot be written to.
func (f *file) fetchRest(ctx context.Context, progress func(have, size int64)) error {
	switch {
	case f.complete != nil:
		return f.linkOrCopyToOwnPath(ctx)
	case f.id == "":
		return fmt.Errorf("%w: the server does not tell its versions apart", loader.ErrUnsupported)
	case f.partial == nil:
		return fmt.Errorf("the cache cannot be written to: %w", fs.ErrPermission)
	}
	if err := f.partial.Fill(ctx, progress); err != nil {
		return err
	}
	return f.moveToFinalPath(ctx, f, waitForLock)
}

// finalize begins to move a file whose bytes are all present to its final path, in the background: Close cancels that.
// A failure is logged, and leaves the file incomplete.
func (f *file) finalize() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancelFinalizing = cancel
	f.finalizing.Go(func() error {
		if err := f.moveToFinalPath(ctx, f, waitForLock); err == nil {
			f.opts.logger().Debug("file is complete in the cache", "file", f.Name())
		} else if ctx.Err() == nil {
			f.opts.logger().Warn("file stays incomplete in the cache", "file", f.Name(), "reason", err)
		}
		return nil
	})
}

// release closes the file and its source, and leaves its content where it is: nothing moves to its final path. It
// fails if closing does.
func (f *file) release() error {
	defer func() { // and if a callback has panicked
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

// Close closes the file. It first moves a small file whose bytes are all present to its final path in the cache. It waits neither
// for the digest of a large file nor for another process. It fails if moving or closing does.
func (f *file) Close() (err error) {
	defer func() { err = errors.Join(err, f.release()) }() // and if a callback has panicked
	if f.complete == nil {
		f.filling.end()
	}
	if f.partial != nil {
		if f.cancelFinalizing != nil {
			f.cancelFinalizing()
			f.finalizing.Wait()
		} else if whole := f.partial.Have() == f.object.size && !f.partial.Finished(); whole && f.failedToOpen.Load() {
			err = f.partial.Remove() // what could not be opened gets no final path
		} else if whole && f.object.size <= maxMovedAtClose {
			if err = f.moveToFinalPath(context.Background(), f, tryLock); errors.Is(err, errBusy) || errors.Is(err, sparse.ErrOtherContent) {
				err = nil // huggingface_hub has it for as long as it downloads, or another process brings it
			} else if err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
	}
	return err
}
