package loader

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/tensormap/tensormap/layout"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// Source reads one file by range, such as one on another machine. Its methods may be called concurrently. The model closes it.
type Source interface {
	// Size returns the length of the file in bytes.
	Size() int64
	// ReadAt fills p with the bytes from off on, or fails. It ends with ctx.
	ReadAt(ctx context.Context, p []byte, off int64) error
	Close() error
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

// Folder is a place where the files of a model lie side by side: a repository, a bucket, a directory on a web server, or one
// file. Its methods may be called concurrently.
type Folder interface {
	// Open opens the file of a plain name. ctx bounds what opening reads. The error is fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (FolderFile, error)
}

// FolderFile is one file as a Folder has it. A field that is nil is something that the file does not have.
type FolderFile struct {
	// Name is what errors call the file. The part after the last slash is the file's name in its folder, which a shard of a
	// GGUF split needs.
	Name string
	// Source reads the file, or what Local lacks. If it is nil, Local has all.
	Source Source
	// Local is a file of this system that has the bytes, or takes them. The model maps it: bytes that are present are
	// views of it. Source closes it; if Source is nil, the model does.
	Local *os.File
	// Cache tells which bytes Local has, and fetches others. If it is nil, Local has all.
	Cache Cache
}

// Close closes a file that no model has taken: its Source, which closes Local too, or else Local.
func (s *FolderFile) Close() error {
	switch {
	case s.Source != nil:
		return s.Source.Close()
	case s.Local != nil:
		return s.Local.Close()
	}
	return nil
}

// RequireDigests makes s.Cache refuse, from now on, bytes that differ from the digests that trust has of the file. Bytes that the cache has
// already are not verified. name is the file's slash-separated name in trust's model. RequireDigests is for files that are downloaded and
// not opened, such as a tokenizer: models do the same with Options.Trust. It fails if trust refuses the file, or if s cannot be read.
func (s *FolderFile) RequireDigests(ctx context.Context, name string, trust Trust) error {
	const mayMap = true
	f, err := s.file(mayMap)
	if err != nil {
		return err
	}
	defer f.Close()
	return guardFile(s.Name, func() error {
		const private = false // the cache's file is verified, not a copy
		return f.Trust(ctx, private, func(in layout.Input) (*layout.Digests, error) { return trust.Digests(name, in) })
	})
}

// file returns s as a file that a model reads. If s has Local and Cache, Local takes what Source reads. file maps Local if mayMap is true,
// unless a cache writes to Local and a mapping would not show that. Otherwise system calls read Local. file fails with layout.ErrInvalid if s
// has neither Local nor Source. It fails with ErrRange if Source alone has a negative size, or if the sizes of Local and Source differ. It
// also fails if mapping does.
func (s *FolderFile) file(mayMap bool) (*datafile.File, error) {
	if s.Local == nil {
		if s.Source == nil {
			return nil, fmt.Errorf("%s: %w: a file without bytes", s.Name, layout.ErrInvalid)
		}
		if size := s.Source.Size(); size < 0 {
			return nil, fmt.Errorf("%s: %w: a size of %d", s.Name, ErrRange, size)
		}
		isRemote := !isLocalReader(s.Source)
		return datafile.FromSource(s.Name, s.Source, isRemote, nil, nil), nil
	}
	mapFile := mmapio.FromFile
	if canMap := s.Cache == nil || mmapio.ShowsWrites(); mayMap && canMap {
		mapFile = mmapio.MapFile
	}
	m, err := mapFile(s.Local)
	if err != nil {
		return nil, inFile(s.Name, err)
	}
	if s.Source == nil {
		return datafile.New(s.Name, m), nil
	}
	if size := s.Source.Size(); int64(m.Size()) != size {
		m.Close()
		return nil, fmt.Errorf("%s: %w: its file has %d bytes, not %d", s.Name, ErrRange, m.Size(), size)
	}
	const isRemote = true
	return datafile.FromSource(s.Name, s.Source, isRemote, m, s.Cache), nil
}

// FromReaderAt returns a Folder that has one file: name, of size bytes that r reads. The reader stays the caller's, who may
// close it once [Model.Done] is closed. If it has a method ReadAtContext, reads end with their context.
func FromReaderAt(name string, r io.ReaderAt, size int64) Folder { return readerAt{name, r, size} }

type readerAt struct {
	name string
	r    io.ReaderAt
	size int64
}

var _ interface {
	Folder
	Source
} = readerAt{}

// Open returns the one file, if name is its name. Otherwise it fails with ErrUnsupported.
func (r readerAt) Open(_ context.Context, name string) (FolderFile, error) {
	if name != r.name {
		return FolderFile{}, oneFileError{fmt.Errorf("%w: the model needs the file %q, but its reader is for one file", ErrUnsupported, name)}
	}
	return FolderFile{Name: r.name, Source: r}, nil
}

// Size returns the size of the file.
func (r readerAt) Size() int64 { return r.size }

// Close does nothing: the reader stays the caller's.
func (r readerAt) Close() error { return nil }

// ReadAt fills p with the bytes from off on. It fails if the reader does, or has fewer bytes. A reader with a method ReadAtContext
// stops when ctx ends. For any other reader, ReadAt fails with the cause of ctx only if ctx has ended before.
func (r readerAt) ReadAt(ctx context.Context, p []byte, off int64) error {
	if until, ok := r.r.(contextReader); ok {
		read := readerFunc(func(p []byte, off int64) (int, error) { return until.ReadAtContext(ctx, p, off) })
		return mmapio.ReadFull(read, p, uint64(off))
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return mmapio.ReadFull(r.r, p, uint64(off))
}

// contextReader is a reader whose reads can be ended.
type contextReader interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (n int, err error)
}

// readerFunc is an io.ReaderAt that calls a function.
type readerFunc func(p []byte, off int64) (int, error)

func (f readerFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// isLocalReader reports whether s reads an *os.File of the caller's, so that no network fetches its bytes.
func isLocalReader(s Source) bool {
	r, ok := s.(readerAt)
	if ok {
		_, ok = r.r.(*os.File)
	}
	return ok
}

// oneFileError means that a source has one file only, so that no other one can be missing in it.
type oneFileError struct{ error }

func (e oneFileError) Unwrap() error { return e.error }

// contextOfBoth returns a context with the values of ctx. It ends when ctx or other ends, with the cause of the context that ends first. The
// caller must call the returned function, which also ends the returned context.
func contextOfBoth(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
