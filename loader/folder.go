package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/mmapio"
)

// folder is a directory as a place. Between reading a file's index and touching its data no
// descriptor stays open: a model may have more shards than a process may have files open. The
// file that is opened again must be the same one, unchanged.
type folder struct {
	shownDir string // as the user called it
	absDir   string // the same, wherever the process goes after opening
	noMap    bool

	mu       sync.Mutex
	openRoot *os.Root   // nil until a file is opened that must not be elsewhere
	leftOpen []*os.File // that files read on demand read from
}

// maxOpen is the number of files read on demand that stay open. Others are opened for every read.
const maxOpen = 64

// folderOf returns the directory of the file at path, and opens nothing.
func folderOf(path string, noMap bool) *folder {
	d := &folder{shownDir: filepath.Dir(path), noMap: noMap}
	d.absDir = d.shownDir
	if abs, err := filepath.Abs(d.absDir); err == nil {
		d.absDir = abs
	}
	return d
}

// close closes the directory and the files that stay open. It returns all errors.
func (d *folder) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, f := range d.leftOpen {
		errs = append(errs, f.Close())
	}
	if d.openRoot != nil {
		errs = append(errs, d.openRoot.Close())
	}
	d.leftOpen, d.openRoot = nil, nil
	return errors.Join(errs...)
}

// rootDir returns the directory as a root that links do not lead out of. The first call opens it, and fails if the system does.
func (d *folder) rootDir() (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openRoot == nil {
		root, err := os.OpenRoot(d.absDir)
		if err != nil {
			return nil, err
		}
		d.openRoot = root
	}
	return d.openRoot, nil
}

// dirEntry is a file of a folder.
type dirEntry struct {
	folder       *folder
	name         string
	followsLinks bool
	opened       mmapio.Identity // of the file as it was first opened

	openHandle atomic.Pointer[os.File] // that ReadAt reads from, if it stays open
}

// Name returns the file's path for messages: its name in the directory that the user gave.
func (e *dirEntry) Name() string { return filepath.Join(e.folder.shownDir, e.name) }

// reopen opens the file again. It fails if the system does, or if another file has the name now or the file has changed.
func (e *dirEntry) reopen() (*os.File, error) {
	return e.openChecked(func(now fs.FileInfo) error { return e.opened.Check(mmapio.IdentityOf(now)) })
}

// stat describes the file that has the name now. It does not follow links out of the directory unless e.followsLinks is true. It fails if
// the system does, or if no file has the name.
func (e *dirEntry) stat() (fs.FileInfo, error) {
	if e.followsLinks {
		info, err := os.Stat(filepath.Join(e.folder.absDir, e.name))
		return info, e.withUserPath(err)
	}
	root, err := e.folder.rootDir()
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(e.name)
	return info, e.withUserPath(err)
}

// openNow opens the file that has the name now, by the links that stat follows. It waits for no writer of a named pipe if the system has
// O_NONBLOCK. It fails if the system does.
func (e *dirEntry) openNow() (*os.File, error) {
	const flag = os.O_RDONLY | nonblock
	if e.followsLinks {
		f, err := os.OpenFile(filepath.Join(e.folder.absDir, e.name), flag, 0)
		return f, e.withUserPath(err)
	}
	root, err := e.folder.rootDir()
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(e.name, flag, 0)
	return f, e.withUserPath(err)
}

// withUserPath returns err, an error of the system, with e.Name as its path. It drops what wraps the *fs.PathError. It returns any
// other error, and nil, unchanged.
func (e *dirEntry) withUserPath(err error) error {
	if system, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: system.Op, Path: e.Name(), Err: system.Err}
	}
	return err
}

// openChecked opens the file that has the name now, and fails if check finds fault with what the system says of it. If the system has no
// O_NONBLOCK, it checks before it opens too, since opening a named pipe might wait.
func (e *dirEntry) openChecked(check func(info fs.FileInfo) error) (*os.File, error) {
	// checked calls check with info, unless err, the error of describing the file, is set. It returns the error of either.
	checked := func(info fs.FileInfo, err error) error {
		if err == nil {
			if err = check(info); err != nil {
				err = &fs.PathError{Op: "open", Path: e.Name(), Err: err}
			}
		}
		return err
	}
	if nonblock == 0 {
		if err := checked(e.stat()); err != nil {
			return nil, err
		}
	}
	f, err := e.openNow()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err := checked(info, e.withUserPath(err)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadAt fills p with the bytes from off on, by a system call: the model is not mapped. It reads from e.openHandle, or opens the
// file again if that is nil. It fails if the system does, or if the file has changed since it was first opened.
func (e *dirEntry) ReadAt(p []byte, off int64) (int, error) {
	f := e.openHandle.Load()
	if f == nil {
		var err error
		if f, err = e.reopen(); err != nil {
			return 0, err
		}
		if !e.keepOpen(f) {
			defer f.Close()
		}
	}
	n, err := f.ReadAt(p, off)
	return n, e.withUserPath(err)
}

// keepOpen leaves f open for later reads, until folder.close closes it, and returns true. If maxOpen files are open already it
// returns false: the caller then closes f. If two reads at once each leave one open, later reads use the one stored last.
func (e *dirEntry) keepOpen(f *os.File) bool {
	d := e.folder
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leftOpen) >= maxOpen {
		return false
	}
	d.leftOpen = append(d.leftOpen, f)
	e.openHandle.Store(f)
	return true
}

// entryOf returns the file at path, which has the identity opened, as an entry of its directory: it can be looked up and opened again even
// if the process changes its directory. The result is nil if the identity is not known, as of memory.
func entryOf(path string, opened mmapio.Identity) *dirEntry {
	if !opened.Known() {
		return nil
	}
	return &dirEntry{folder: folderOf(path, false), name: filepath.Base(path), followsLinks: true, opened: opened}
}

// entryOfOpen does what entryOf does for the open file f. The result is nil too if the name of f does not lead to that file now.
func entryOfOpen(f *os.File, opened mmapio.Identity) *dirEntry {
	e := entryOf(f.Name(), opened)
	if now, ok, _ := e.identityNow(); !ok || !now.SameFile(opened) {
		return nil
	}
	return e
}

// identityNow returns the identity of the file that has the name now. ok is false if no file has the name, if the system
// forbids asking, or if e is nil. For any other error of the system it fails.
func (e *dirEntry) identityNow() (id mmapio.Identity, ok bool, err error) {
	if e == nil {
		return id, false, nil
	}
	info, err := e.stat()
	switch {
	case err == nil:
		return mmapio.IdentityOf(info), true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return id, false, nil
	}
	return id, false, err
}
