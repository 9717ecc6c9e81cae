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
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// file is a file of a folder: complete in the cache, filling as it is read, or (with neither whole
// nor part) on its server only.
type file struct {
	*folder
	object
	base  string // name in the folder
	whole *os.File
	part  *sparse.File

	asking sync.Mutex
	source Source // nil until bytes are missing

	verified atomic.Pointer[sparse.Fetch] // see Fetch

	unopened atomic.Bool // opening has not found a model in it

	finalizing       parallel.Group // see finalize
	cancelFinalizing context.CancelFunc
}

// maxAtClose is the size up to which a file that has come whole gets its final place when it is closed:
// its digest takes a fraction of a second. Larger ones get it by Pull, or while they are next open.
var maxAtClose int64 = 16 << 20

var _ interface {
	loader.Source
	loader.Cache
	Source
} = (*file)(nil)

// stored returns the file as a model has it.
func (f *file) stored() loader.Stored {
	s := loader.Stored{Name: f.Name(), Source: f, Local: f.whole}
	if f.part != nil {
		s.Local, s.Cache = f.part.Data(), f
	}
	return s
}

// Name returns the file's address.
func (f *file) Name() string { return f.object.name }

// Size returns the length of the file in bytes.
func (f *file) Size() int64 { return f.object.size }

// head returns how many bytes of the file's beginning come at once.
func (f *file) head() int64 { return min(f.Size(), sparse.HeadBytes) }

// ReadAt reads from the server, and puts nothing into the cache. It fails with mmapio.ErrChanged if the cache has bytes
// of another version.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) error {
	err := f.fromServer(ctx, p, off)
	if f.part != nil {
		err = f.part.Agree(err)
	}
	return err
}

// fromServer fills p with the bytes from off on that the server has, whatever the cache has.
func (f *file) fromServer(ctx context.Context, p []byte, off int64) error {
	source, err := f.ask(ctx)
	if err != nil {
		return err
	}
	return source.ReadVector(ctx, [][]byte{p}, off)
}

// Bring makes sure that n bytes at off are in the cache. It reports false if the disk is full.
func (f *file) Bring(ctx context.Context, off, n uint64) (cached bool, err error) {
	return f.part.Bring(ctx, int64(off), int64(n))
}

// Has reports whether n bytes at off are in the cache.
func (f *file) Has(off, n uint64) bool { return f.part.Has(int64(off), int64(n)) }

// Fetch makes fetch the only source of bytes for the cache: it verifies them.
func (f *file) Fetch(fetch func(ctx context.Context, p []byte, off int64) error) {
	by := sparse.Fetch(fetch)
	f.verified.Store(&by)
}

// fetch fills p with the file's bytes from off on, for the cache: by the function that Fetch was given, or else from
// the server.
func (f *file) fetch(ctx context.Context, p []byte, off int64) error {
	if by := f.verified.Load(); by != nil {
		return (*by)(ctx, p, off)
	}
	return f.fromServer(ctx, p, off)
}

// ReadAtContext reads the file as ReadVector does, as io.ReaderAt has it.
func (f *file) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return sparse.ReadAt(ctx, f, f.Size(), p, off)
}

// ReadVector fills one buffer after another with the consecutive bytes from off on. Bytes that it fetches go into
// the cache, unless they have to be verified first.
func (f *file) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	if f.whole == nil {
		// Without Trust, or by a verified fetch, bytes may go into the cache; else only the cache's own are read there.
		trusting := f.opts.Loader.Trust == nil || f.verified.Load() != nil
		if f.part != nil && (trusting || f.part.Has(off, sparse.TotalBytes(bufs))) {
			return f.part.ReadVector(ctx, bufs, off)
		}
		source, err := f.ask(ctx)
		if err != nil {
			return err
		}
		return source.ReadVector(ctx, bufs, off)
	}
	for _, b := range bufs {
		if n, err := f.whole.ReadAt(b, off); n < len(b) {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// ask returns the source of missing bytes. Its first call connects, for the version that the cache has bytes of.
func (f *file) ask(ctx context.Context) (Source, error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	if f.source == nil {
		version := ""
		if f.part != nil {
			version = f.part.Version()
		}
		source, err := f.connect(ctx, version)
		if err != nil {
			return nil, err
		}
		f.source = source
	}
	return f.source, nil
}

// Version returns what tells the version of the bytes that the file has, or will have, from others: see versionOf.
func (f *file) Version() string {
	switch {
	case f.whole != nil:
		return wholeVersion
	case f.part != nil:
		return f.part.Version()
	}
	return f.sourceVersion()
}

// wholeVersion is that of content whose digest is compared.
const wholeVersion = "whole"

// sourceVersion returns what the server says of the version that it sends.
func (f *file) sourceVersion() string {
	f.asking.Lock()
	defer f.asking.Unlock()
	return versionOf(f.source)
}

// fill fetches all missing bytes, and moves the file to its final path in the cache. It fails if there is no cache for
// this file: the content has no id, or the cache cannot be written to.
func (f *file) fill(ctx context.Context, progress func(have, size int64)) error {
	switch {
	case f.whole != nil:
		return f.adopt(ctx)
	case f.id == "":
		return fmt.Errorf("%w: the server does not tell its versions apart", loader.ErrUnsupported)
	case f.part == nil:
		return fmt.Errorf("the cache cannot be written to: %w", fs.ErrPermission)
	}
	if err := f.part.Fill(ctx, progress); err != nil {
		return err
	}
	return f.move(ctx, f, true /* wait for the lock */)
}

// finalize begins to move a file whose bytes are all present to its final path, in the background: Close cancels that.
// A failure is logged, and leaves the file incomplete.
func (f *file) finalize() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancelFinalizing = cancel
	f.finalizing.Go(func() error {
		if err := f.move(ctx, f, true /* wait for the lock */); err == nil {
			f.opts.logger().Debug("file is complete in the cache", "file", f.Name())
		} else if ctx.Err() == nil {
			f.opts.logger().Warn("file stays incomplete in the cache", "file", f.Name(), "reason", err)
		}
		return nil
	})
}

// release closes the file and its source, and leaves its content where it is: nothing moves to its final path.
func (f *file) release() error {
	defer func() { // and if a callback has panicked
		f.asking.Lock()
		defer f.asking.Unlock()
		if f.source != nil {
			f.source.Close()
		}
	}()
	switch {
	case f.whole != nil:
		return f.whole.Close()
	case f.part != nil:
		return f.part.Close()
	}
	return nil
}

// Close closes the file. A small one whose bytes are all present moves to its final path before. Close waits neither for
// the digest of a large one nor for another process.
func (f *file) Close() (err error) {
	defer func() { err = errors.Join(err, f.release()) }() // and if a callback has panicked
	if f.whole == nil {
		f.filling.end()
	}
	if f.part != nil {
		if f.cancelFinalizing != nil {
			f.cancelFinalizing()
			f.finalizing.Wait()
		} else if whole := f.part.Have() == f.object.size && !f.part.Finished(); whole && f.unopened.Load() {
			err = f.part.Remove() // what could not be opened gets no final path
		} else if whole && f.object.size <= maxAtClose {
			// move checks the digest, and does not wait for the lock.
			if err = f.move(context.Background(), f, false); errors.Is(err, errBusy) || errors.Is(err, sparse.ErrOther) {
				err = nil // huggingface_hub has it for as long as it downloads, or another process brings it
			} else if err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
	}
	return err
}
