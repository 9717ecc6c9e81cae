package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/tensormap/tensormap/layout"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// followLinks lets place.open follow links out of the place.
const followLinks = true

// place is where the files of a model lie side by side. Its methods may be called concurrently.
type place interface {
	// open opens the file of a plain name. If follow is true, a link may lead out of the place: see followLinks.
	// ctx bounds what opening reads. The error names the file.
	open(ctx context.Context, name string, follow bool) (*file, error)
	// close closes what the place has left open. Its files are closed by then.
	close() error
}

// inMemory is the place of a model in memory, which is one file.
type inMemory struct{}

// open fails with ErrUnsupported: there is no other file.
func (inMemory) open(_ context.Context, name string, _ bool) (*file, error) {
	return nil, oneFileError{fmt.Errorf("%w: the model is in memory, which has no file %q beside it: open it by its path", ErrUnsupported, name)}
}

func (inMemory) close() error { return nil }

// open opens the file called name without mapping it. Its index is read from the file opened here, until endOpening closes that. The
// first touch of the data opens the file again and maps it. With NoMap, or on systems whose mappings only read, reads of the data open the
// file again instead. It fails if the system does, or if the file is not a regular one.
func (d *folder) open(_ context.Context, name string, follow bool) (*file, error) {
	e := &dirEntry{folder: d, name: name, followsLinks: follow}
	opened, err := e.openChecked(func(info fs.FileInfo) error {
		e.opened = mmapio.IdentityOf(info)
		if info.Mode().IsRegular() {
			return nil
		}
		return fmt.Errorf("not a regular file, but %v", info.Mode())
	})
	if err != nil {
		return nil, err
	}
	size := e.opened.Size()
	m := mmapio.Lazy(e.Name(), uint64(size), e.reopen)
	if d.noMap || !m.Aliased() { // a mapping that only reads the file would keep it open
		m = mmapio.FromReaderAt(e, size)
	}
	f := newFile(datafile.New(e.Name(), m))
	f.opened, f.entry, f.openingFile = e.opened, e, opened
	f.data.ReadWhileOpening(opened)
	return f, nil
}

// callersFolder is a Folder of the caller's.
type callersFolder struct {
	folder Folder
	noMap  bool
}

// open opens the file called name in the caller's folder. An entry without a Source is closed at once if its data is in place: the mapping
// outlives the local file. open fails if the folder does, if the folder's entry has no bytes, or if mapping fails.
func (p callersFolder) open(ctx context.Context, name string, _ bool) (*file, error) {
	entry, err := p.folder.Open(ctx, name)
	if err != nil {
		return nil, inFile(name, err)
	}
	taken := false // true once the result has entry, so that it stays open
	defer func() {
		if !taken { // for an error, or a panic of the caller's source
			entry.Close()
		}
	}()
	data, err := entry.file(!p.noMap)
	if err != nil {
		return nil, err
	}
	f := newFile(data)
	if source, ok := entry.Source.(datafile.Identified); ok {
		f.contentID = source.ContentID()
	}
	if m := data.Mapping(); m != nil {
		f.opened = m.Identity()
	}
	if entry.Source == nil {
		f.entry = entryOfOpen(entry.Local, f.opened)
	}
	if taken = entry.Source != nil || !data.InPlace(); taken {
		f.closeSource = entry.Close
	}
	return f, nil
}

func (callersFolder) close() error { return nil }

// source opens the files of a model, and closes them. They hand out verified bytes only, and encrypted ones decrypted.
type source struct {
	place
	opts        Options
	keys        *keyring // nil without Options.Key
	readsCtx    context.Context
	cancelReads context.CancelCauseFunc // ends readsCtx; nil if that never ends

	mu    sync.Mutex
	files map[*file]bool // that close closes
}

// newSource returns the source of the files in p. The reads of a caller's folder may wait for ever: endReads ends them.
func newSource(p place, o Options) *source {
	s := &source{place: p, opts: o, readsCtx: context.Background(), files: make(map[*file]bool)}
	if _, ok := p.(callersFolder); ok {
		s.readsCtx, s.cancelReads = context.WithCancelCause(s.readsCtx)
	}
	if o.Key != nil {
		s.keys = &keyring{askSecret: o.Key}
	}
	return s
}

// baseContext returns the context of calls that have none of their own. It ends with endReads if reads may wait for ever.
func (s *source) baseContext() context.Context { return s.readsCtx }

// endReads ends the reads under way that may wait for ever, and later ones, with ErrClosed.
func (s *source) endReads() {
	if s.cancelReads != nil {
		s.cancelReads(ErrClosed)
	}
}

// open opens the file of the model that is called name. If follow is true, a link may lead out of the place. It fails if opening does, for
// an untrusted file, or for an encrypted one whose head is not authentic.
func (s *source) open(ctx context.Context, name string, follow bool) (*file, error) {
	f, err := s.openVerified(ctx, name, follow)
	if err == nil {
		err = s.keys.authenticate(ctx, f, s.opts.Limits)
	}
	return f, err
}

// openVerified opens the file called name. The file hands out verified bytes only, if there is a Trust. If follow is true, a link may lead
// out of the place. Callers may do without a file whose error is fs.ErrNotExist or ErrUnsupported. If the Trust lists the file,
// openVerified returns layout.ErrNotFound instead, so that no caller does without it. A oneFileError stays as it is: that place can have no
// other file. If s.add fails, the file is closed.
func (s *source) openVerified(ctx context.Context, name string, follow bool) (*file, error) {
	f, err := s.place.open(ctx, name, follow)
	if by, ok := s.opts.Trust.(Lister); ok && err != nil && by.Lists(name) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: %w: the trusted files include it", name, layout.ErrNotFound)
		case errors.Is(err, ErrUnsupported) && !errors.As(err, new(oneFileError)):
			return nil, fmt.Errorf("%w: the trusted files include it, but: %v", layout.ErrNotFound, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return f, s.add(ctx, f)
}

// add makes s the owner of f: s.close closes f, unless s.closeFile has done so. If there is a Trust, add sees to it that f hands out only
// verified bytes. Nothing may have parsed f before. If verifyBy fails, such as for a file that the Trust refuses, add closes f and fails.
func (s *source) add(ctx context.Context, f *file) error {
	s.mu.Lock()
	s.files[f] = true
	s.mu.Unlock()
	err := f.verifyBy(ctx, &s.opts)
	if err != nil {
		s.closeFile(f)
	}
	return err
}

// closeFile closes f, and makes s.close leave it alone. It fails if closing f does.
func (s *source) closeFile(f *file) error {
	s.mu.Lock()
	delete(s.files, f)
	s.mu.Unlock()
	return f.close()
}

// close ends reads, closes all files and then the place, and returns all errors. The calls are deferred: if one panics, the others still
// run.
func (s *source) close() (err error) {
	s.endReads()
	defer func() { err = errors.Join(err, s.place.close()) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.files {
		defer func() { err = errors.Join(err, f.close()) }()
	}
	clear(s.files)
	return nil
}

// readBeside returns the bytes of the file called name beside the model's, verified if there is a Trust. It fails with fs.ErrNotExist if
// there is no such file. It fails with ErrTooLarge if the file has more than limit bytes. It also fails if opening or reading it does.
func (s *source) readBeside(ctx context.Context, name string, limit uint64) ([]byte, error) {
	f, err := s.openVerified(ctx, name, followLinks)
	if err != nil {
		return nil, err
	}
	defer s.closeFile(f)
	if size := f.data.Size(); size > limit {
		return nil, inFile(f.path, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, limit))
	}
	var b []byte
	err = guardFile(f.path, func() error {
		view, err := f.input(ctx).Slice(0, f.data.Size())
		b = bytes.Clone(view) // a view would not outlive the file
		return err
	})
	return b, err
}
