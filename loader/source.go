package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// Source reads one file by range, such as one on another machine. The model closes it.
type Source = datafile.Source

// Cache is a file of this system that takes what comes from a Source.
type Cache = datafile.Cache

// Folder is a place where the files of a model lie side by side: a repository, a bucket, a directory on a web server, or one
// file. Its methods may be called concurrently.
type Folder interface {
	// Open opens the file of a plain name. ctx bounds what opening reads. The error is fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (FolderFile, error)
}

// FolderFile is one file as a Folder has it. A field that is nil is something that the file does not have.
type FolderFile struct {
	// Name is what errors call the file. The part after the last slash is the file's name beside others, which a part of a
	// GGUF split needs.
	Name string
	// Source reads the file, or what Local lacks. If it is nil, Local has all.
	Source Source
	// Local is a file of this system that has the bytes, or takes them. The model maps it: bytes that are present are
	// views of it. Source closes it; if Source is nil, the model does.
	Local *os.File
	// Cache tells which bytes Local has, and brings others. If it is nil, Local has all.
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

// Verify makes s.Cache refuse, from now on, bytes that differ from the digests that trust has of the file. It verifies no bytes itself.
// name is the file's slash-separated name in trust's model. Verify is for files that are downloaded and not opened, such as a
// tokenizer: models do the same with Options.Trust. It fails if trust refuses the file, or if s cannot be read.
func (s *FolderFile) Verify(ctx context.Context, name string, trust Trust) error {
	const noMap = false
	f, err := s.file(noMap)
	if err != nil {
		return err
	}
	defer f.Close()
	return guardFile(s.Name, func() error {
		const private = false // the cache's file is verified, not a copy
		return f.Trust(ctx, private, func(in layout.Input) (*layout.Digests, error) { return trust.Digests(name, in) })
	})
}

// file returns s as a file that a model reads. It maps a local file, unless noMap is true or a mapping would not show what the cache
// writes. In these two cases the file is read by system calls. file fails if s has neither a local file nor a source, if their sizes
// differ, or if mapping fails.
func (s *FolderFile) file(noMap bool) (*datafile.File, error) {
	if s.Local == nil {
		if s.Source == nil {
			return nil, fmt.Errorf("%s: %w: a file without bytes", s.Name, layout.ErrInvalid)
		}
		if size := s.Source.Size(); size < 0 {
			return nil, fmt.Errorf("%s: %w: a size of %d", s.Name, ErrRange, size)
		}
		return datafile.FromSource(s.Name, s.Source, !isLocalReader(s.Source)), nil
	}
	mapFile := mmapio.MapFile
	if noMap || s.Cache != nil && !mmapio.ShowsWrites() {
		mapFile = mmapio.FromFile
	}
	m, err := mapFile(s.Local)
	if err != nil {
		return nil, inFile(s.Name, err)
	}
	if s.Source != nil && int64(m.Size()) != s.Source.Size() {
		m.Close()
		return nil, fmt.Errorf("%s: %w: its file has %d bytes, not %d", s.Name, ErrRange, m.Size(), s.Source.Size())
	}
	if s.Source == nil || s.Cache == nil {
		f := datafile.New(s.Name, m)
		f.CountedBy(s.Source)
		return f, nil
	}
	return datafile.FromCache(s.Name, s.Source, m, s.Cache), nil
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
		return mmapio.ReadFull(boundReader{until, ctx}, p, uint64(off))
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

// boundReader is a reader whose reads end with ctx.
type boundReader struct {
	contextReader
	ctx context.Context
}

// ReadAt calls ReadAtContext with the reader's context.
func (b boundReader) ReadAt(p []byte, off int64) (int, error) { return b.ReadAtContext(b.ctx, p, off) }

// isLocalReader reports whether s reads an *os.File of the caller's, so that no network brings its bytes.
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

// followLinks lets source.open follow links out of the source.
const followLinks = true

// source is where the files of a model come from. Its methods may be called concurrently.
type source interface {
	// open opens the file of a plain name. It follows a link out of the source only if follow
	// is true. ctx bounds what opening reads. The error names the file.
	open(ctx context.Context, name string, follow bool) (*stored, error)
	// baseContext is the context of calls that have none of their own. It ends by end, if reads may wait for ever.
	baseContext() context.Context
	// endReads ends the reads under way that may wait for ever.
	endReads()
	// close closes what the source has left open. Its files are closed by then.
	close() error
}

// stored is an open file of a source.
type stored struct {
	data *datafile.File // the bytes for the life of the model. They cost nothing until they are touched
	// index reads the same bytes, and only those that are asked for. It serves until done.
	index       layout.Input
	closeIndex  func()
	closeSource func() error // closes what data reads from, before the source does
	// verifiedHead is the start of the file as it was verified, if it was; else nil. Nothing of it is read again: the
	// file, or who sends it, may say something else by then.
	verifiedHead []byte
	origin
	contentID string            // by its Source, if that knows; else ""
	cipher    *encrypted.Cipher // of an encrypted file, if Options.Key has the key; else nil
}

// useVerifiedHead makes the index of s read its first bytes from head, which was verified. An empty head changes nothing.
func (s *stored) useVerifiedHead(head []byte) {
	if len(head) > 0 {
		s.verifiedHead, s.index = head, &inputWithBytes{s.index, 0, head}
	}
}

// discard closes s, which no model uses, and its index. It fails if closing the data or their source does.
func (s *stored) discard() error {
	s.closeIndex()
	return errors.Join(s.data.Close(), s.closeSource())
}

// nothingToClose returns nil. It serves as stored.closeSource of a file that reads from no Source.
func nothingToClose() error { return nil }

// storedFrom returns the file at path, which mapping maps, with an index that is read from the mapping.
func storedFrom(path string, mapping *mmapio.Mapping) *stored {
	f := datafile.New(path, mapping)
	return &stored{data: f, index: f.Input(context.Background()), closeIndex: func() {}, closeSource: nothingToClose, origin: originOf(path, mapping)}
}

// endsByItself is for a source whose reads end by themselves, so that nothing has to end them.
type endsByItself struct{}

// baseContext returns a context that never ends.
func (endsByItself) baseContext() context.Context { return context.Background() }

// endReads does nothing.
func (endsByItself) endReads() {}

// inMemory is the source of a model in memory, which is one file.
type inMemory struct{ endsByItself }

// open fails with ErrUnsupported: there is no other file.
func (inMemory) open(_ context.Context, name string, _ bool) (*stored, error) {
	return nil, oneFileError{fmt.Errorf("%w: the model is in memory, which has no file %q beside it: open it by its path", ErrUnsupported, name)}
}

// close does nothing.
func (inMemory) close() error { return nil }

// callersFolder is a Folder of the caller's as the source of a model.
type callersFolder struct {
	folder      Folder
	readsCtx    context.Context // of all reads but those of opening
	cancelReads context.CancelCauseFunc
	noMap       bool

	mu        sync.Mutex
	openFiles map[*FolderFile]bool
}

// newCallersFolder returns f as the source of a model. Reads of its files end when endReads is called.
func newCallersFolder(f Folder, o Options) *callersFolder {
	p := &callersFolder{folder: f, noMap: o.NoMap, openFiles: make(map[*FolderFile]bool)}
	p.readsCtx, p.cancelReads = context.WithCancelCause(context.Background())
	return p
}

// open opens the file called name in the caller's folder. The result's closeSource closes the file, or else p.close does. But open
// closes a local file without a Source at once if it is in place: the mapping outlives it. open fails if the folder does, if the
// folder's entry has no bytes, or if mapping fails.
func (p *callersFolder) open(ctx context.Context, name string, _ bool) (*stored, error) {
	entry, err := p.folder.Open(ctx, name)
	if err != nil {
		return nil, inFile(name, err)
	}
	p.mu.Lock()
	p.openFiles[&entry] = true
	p.mu.Unlock()
	closeEntry := func() error {
		p.mu.Lock()
		delete(p.openFiles, &entry)
		p.mu.Unlock()
		return entry.Close()
	}
	data, err := entry.file(p.noMap)
	if err != nil {
		closeEntry()
		return nil, err
	}
	s := &stored{data: data, index: data.Input(ctx), closeIndex: func() {}, closeSource: closeEntry}
	if source, ok := entry.Source.(datafile.Identified); ok {
		s.contentID = source.ContentID()
	}
	if m := data.Mapping(); m != nil {
		s.opened = m.Identity()
	}
	if entry.Source == nil {
		s.origin = originOfOpen(entry.Local, data.Mapping())
		if data.InPlace() {
			entry.Local.Close() // an error loses nothing
			entry.Local = nil   // so that closing entry does nothing
		}
	}
	return s, nil
}

// baseContext returns the context that endReads and close end.
func (p *callersFolder) baseContext() context.Context { return p.readsCtx }

// endReads ends all reads that are under way, and later ones, with ErrClosed.
func (p *callersFolder) endReads() { p.cancelReads(ErrClosed) }

// close ends reads and closes all files, and returns all errors. The calls of Close are deferred: if one panics, the others still run.
func (p *callersFolder) close() (err error) {
	p.endReads()
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.openFiles {
		defer func() { err = errors.Join(err, s.Close()) }()
	}
	clear(p.openFiles)
	return nil
}

// contextOfBoth returns a context with the values of ctx. It ends when ctx or other does, with the cause of the first. The caller must
// call the returned function, which ends it too.
func contextOfBoth(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// inputWithBytes is a file with the bytes from off on in memory.
type inputWithBytes struct {
	layout.Input
	bytesOff uint64
	bytes    []byte
}

// Slice returns n bytes at off. It takes them from f.bytes, which are verified or unpacked, if those cover the whole range. Otherwise
// it reads all of them from the file. It fails if reading does.
func (f *inputWithBytes) Slice(off, n uint64) ([]byte, error) {
	if off >= f.bytesOff && layout.Within(off-f.bytesOff, n, uint64(len(f.bytes))) {
		return f.bytes[off-f.bytesOff:][:n:n], nil
	}
	return f.Input.Slice(off, n)
}
