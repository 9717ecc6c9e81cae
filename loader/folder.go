package loader

import (
	"errors"
	"fmt"
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

// origin returns what is known of the file, whose identity e.opened has.
func (e *dirEntry) origin() origin { return origin{e.opened, e.stat, e.reopen} }

// Name returns the file's path for messages: its name in the directory that the user gave.
func (e *dirEntry) Name() string { return filepath.Join(e.folder.shownDir, e.name) }

// openFirst opens the file for the first time, and sets e.opened to its identity. It fails if the system does, or if the file is not a
// regular one.
func (e *dirEntry) openFirst() (*os.File, error) {
	return e.openChecked(func(info fs.FileInfo) error {
		e.opened = mmapio.IdentityOf(info)
		if info.Mode().IsRegular() {
			return nil
		}
		return fmt.Errorf("not a regular file, but %v", info.Mode())
	})
}

// reopen opens the file again. It fails if the system does, or if another file has the name now or the file has changed.
func (e *dirEntry) reopen() (*os.File, error) {
	return e.openChecked(func(now fs.FileInfo) error { return e.opened.Check(mmapio.IdentityOf(now)) })
}

// stat describes the file that has the name now. It fails if the system does, or if no file has the name.
func (e *dirEntry) stat() (fs.FileInfo, error) {
	name, in, err := e.funcs()
	if err != nil {
		return nil, err
	}
	info, err := in.stat(name)
	return info, e.withUserPath(err)
}

// fileFuncs has the functions that find a file by its name: in one directory, or anywhere.
type fileFuncs struct {
	stat func(name string) (fs.FileInfo, error)
	open func(name string, flag int, mode fs.FileMode) (*os.File, error)
}

// funcs returns a name for the file, and the functions that open and describe it: in the whole system, or without following links out of
// the directory. It fails if the directory cannot be opened. The directory stays open until folder.close.
func (e *dirEntry) funcs() (name string, in fileFuncs, err error) {
	if e.followsLinks {
		return filepath.Join(e.folder.absDir, e.name), fileFuncs{os.Stat, os.OpenFile}, nil
	}
	root, err := e.folder.rootDir()
	if err != nil {
		return "", fileFuncs{}, err
	}
	return e.name, fileFuncs{root.Stat, root.OpenFile}, nil
}

// withUserPath returns err, an error of the system, with e.Name as its path. It drops what wraps the *fs.PathError. It returns any
// other error, and nil, unchanged.
func (e *dirEntry) withUserPath(err error) error {
	if system, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: system.Op, Path: e.Name(), Err: system.Err}
	}
	return err
}

// openChecked opens the file that has the name now, and fails if check finds fault with what the system says of it. It waits for no writer
// of a named pipe: it opens with O_NONBLOCK, or where that is missing checks before it opens too.
func (e *dirEntry) openChecked(check func(info fs.FileInfo) error) (*os.File, error) {
	name, in, err := e.funcs()
	if err != nil {
		return nil, err
	}
	// checked calls check with info, unless err, the error of describing the file, is set. It returns the error of either.
	checked := func(info fs.FileInfo, err error) error {
		if err != nil {
			return e.withUserPath(err)
		}
		if err := check(info); err != nil {
			return &fs.PathError{Op: "open", Path: e.Name(), Err: err}
		}
		return nil
	}
	if nonblock == 0 {
		if err := checked(in.stat(name)); err != nil {
			return nil, err
		}
	}
	f, err := in.open(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, e.withUserPath(err)
	}
	if err := checked(f.Stat()); err != nil {
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

// origin tells what a file was when it was opened, and what its name leads to now. The zero value
// knows neither; memory and readers have it.
type origin struct {
	opened mmapio.Identity
	stat   func() (fs.FileInfo, error)
	// reopen opens the file again, or fails if it is not the one that was opened.
	reopen func() (*os.File, error)
}

// originOf returns the origin of the file at path, which has the identity opened. The result is the zero value if that is not known, as of
// memory. Otherwise it can look path up again, and open the file again, even if the process changes its directory.
func originOf(path string, opened mmapio.Identity) origin {
	if !opened.Known() {
		return origin{}
	}
	e := &dirEntry{folder: folderOf(path, false), name: filepath.Base(path), followsLinks: true, opened: opened}
	return e.origin()
}

// originOfOpen returns the origin of the open file f, which has the identity opened. If the name of f does not lead to that file now, the
// result has its identity only: it neither looks the name up nor opens the file again.
func originOfOpen(f *os.File, opened mmapio.Identity) origin {
	o := originOf(f.Name(), opened)
	if now, ok, _ := o.identityNow(); !ok || !now.SameFile(opened) {
		return origin{opened: opened}
	}
	return o
}

// identityNow returns the identity of the file that has the name now. ok is false if no file has the name, if the system
// forbids asking, or if the name is not known. For any other error of the system it fails.
func (o *origin) identityNow() (id mmapio.Identity, ok bool, err error) {
	if o.stat == nil {
		return id, false, nil
	}
	info, err := o.stat()
	switch {
	case err == nil:
		return mmapio.IdentityOf(info), true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return id, false, nil
	}
	return id, false, err
}

// changed returns an error if another file has the name now, or if the file was written since it was opened. A file counts as
// unchanged if its name is gone, not known, or may not be looked up. changed also fails if looking up fails for any other reason.
func (o *origin) changed() error {
	now, ok, err := o.identityNow()
	if !ok { // nil if there is nothing to compare
		return err
	}
	return o.opened.Check(now)
}
