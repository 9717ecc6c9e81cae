package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
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

	mu sync.Mutex
	// For Options.Loader.Trust, see KeepVerified:
	holding bool  // nothing that is fetched is kept
	held    int64 // the end of what was fetched meanwhile
	verify  func(source loader.ContextReaderAt) loader.ContextReaderAt

	doubtful atomic.Bool // opening has not found a model in it

	settling parallel.Group // see settle
	unsettle context.CancelFunc
}

// mostAtClose is the size up to which a file that has come whole gets its final place when it is closed:
// its digest takes a fraction of a second. Larger ones get it by Pull, or while they are next open.
var mostAtClose int64 = 16 << 20

var _ interface {
	loader.Namer
	loader.BackedReaderAt
	loader.VectorReaderAt
	loader.SiblingOpener
	loader.VerifiedKeeper
	io.Closer
} = (*file)(nil)

// Name returns the file's address.
func (f *file) Name() string { return f.object.name }

// Size returns the length of the file in bytes.
func (f *file) Size() int64 { return f.object.size }

// head returns how many bytes of the file's beginning come at once.
func (f *file) head() int64 { return min(f.Size(), sparse.HeadBytes) }

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext does what ReadAt does, and ends with ctx.
func (f *file) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return sparse.ReadAt(ctx, f, f.Size(), p, off)
}

// Backing returns the file of this system that has the bytes, or that they go to.
func (f *file) Backing() *os.File {
	if f.part != nil {
		return f.part.Data()
	}
	return f.whole
}

// Bring makes sure that n bytes at off are in Backing. It reports false if the disk is full.
func (f *file) Bring(ctx context.Context, off, n uint64) (kept bool, err error) {
	if f.whole != nil {
		return true, nil
	}
	return f.part.Bring(ctx, int64(off), int64(n))
}

// Has reports whether n bytes at off are in Backing.
func (f *file) Has(off, n uint64) bool {
	return f.whole != nil || f.part != nil && f.part.Has(int64(off), int64(n))
}

// ReadVector fills one buffer after another with the consecutive bytes from off on.
func (f *file) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	if f.keeping(off, sparse.TotalBytes(bufs)) {
		return f.part.ReadVector(ctx, bufs, off)
	}
	if f.whole == nil {
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

// OpenSibling opens the file called name in the same folder, of the same revision.
func (f *file) OpenSibling(ctx context.Context, name string) (io.ReaderAt, int64, error) {
	s, err := f.open(ctx, path.Join(path.Dir(f.base), name))
	if err != nil {
		return nil, 0, err
	}
	f.filling.add(s)
	return s, s.Size(), nil
}

// KeepVerified implements loader.VerifiedKeeper. Once verify is known, the start of the file up to the
// end of the last read before it goes into the cache.
func (f *file) KeepVerified(ctx context.Context, verify func(source loader.ContextReaderAt) loader.ContextReaderAt) {
	f.mu.Lock()
	f.holding, f.verify = verify == nil, verify
	held := f.held
	f.mu.Unlock()
	if f.part != nil && verify != nil && held > 0 {
		if _, err := f.part.Bring(ctx, 0, held); err != nil {
			f.opts.logger().Debug("head of the file stays out of the cache", "file", f.Name(), "reason", err)
		}
	}
}

// keeping reports whether n bytes at off are read by way of the incomplete file. They are not if the
// file has none of them yet, and must not keep them.
func (f *file) keeping(off, n int64) bool {
	if f.part == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.holding || f.part.Has(off, n) {
		return true
	}
	f.held = max(f.held, min(off+n, f.object.size))
	return false
}

// fetch asks the server.
func (f *file) fetch(ctx context.Context, p []byte, off int64) error {
	source, err := f.ask(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	verify := f.verify
	f.mu.Unlock()
	if verify == nil {
		return source.ReadVector(ctx, [][]byte{p}, off)
	}
	n, err := verify(part{source, 0, f.Size()}).ReadAtContext(ctx, p, off)
	switch {
	case n == len(p): // perhaps with io.EOF, as io.ReaderAt allows at the end
		return nil
	case err == nil, err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// ask returns the source of what is missing.
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

// fill brings all that is missing, and gives the file its final place.
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
	return f.move(ctx, f, true)
}

// settle gives a file whose bytes have all come its final place, while it is open.
func (f *file) settle() {
	ctx, cancel := context.WithCancel(context.Background())
	f.unsettle = cancel
	f.settling.Go(func() error {
		if err := f.move(ctx, f, true); err == nil {
			f.opts.logger().Debug("file is complete in the cache", "file", f.Name())
		} else if ctx.Err() == nil {
			f.opts.logger().Warn("file stays incomplete in the cache", "file", f.Name(), "reason", err)
		}
		return nil
	})
}

// release lets go of the file, and leaves its content where it is.
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

// Close lets go of the file, and waits neither for the digest of a large one nor for another process.
func (f *file) Close() (err error) {
	defer func() { err = errors.Join(err, f.release()) }() // and if a callback has panicked
	if f.whole == nil {
		f.filling.end()
	}
	if f.part != nil {
		if f.unsettle != nil {
			f.unsettle()
			f.settling.Wait()
		} else if whole := f.part.Have() == f.object.size && !f.part.Finished(); whole && f.doubtful.Load() {
			err = f.part.Remove()
		} else if whole && f.object.size <= mostAtClose {
			if err = f.move(context.Background(), f, false); errors.Is(err, errBusy) || errors.Is(err, sparse.ErrOther) {
				err = nil // huggingface_hub has it for as long as it downloads, or another process brings it
			} else if err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
	}
	return err
}
