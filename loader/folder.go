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

// folder is a directory as a source. Between reading a file's index and touching its data no
// descriptor is kept: a model may have more shards than a process may have files open. The
// file that is opened again must be the same one, unchanged.
type folder struct {
	path  string // of a file in it, as the user called it
	noMap bool

	mu   sync.Mutex
	abs  string     // the directory, wherever the process goes after opening; "" until it is used
	root *os.Root   // the same, nil until a file is opened that must not be elsewhere
	kept []*os.File // that files read on demand read from
}

// mostKept is how many files that are read on demand stay open. Others are opened for every
// read.
const mostKept = 64

// beside is the directory that holds the file at path.
func beside(path string, o Options) source { return &folder{path: path, noMap: o.NoMap} }

func (d *folder) open(name string, follow bool) (*stored, error) {
	e := &dirEntry{folder: d, name: name, follow: follow}
	f, err := e.open()
	if err != nil {
		return nil, err
	}
	size := e.info.Size()
	s := &stored{
		path:  filepath.Join(filepath.Dir(d.path), name),
		index: mmapio.FromReaderAt(f, size),
		done:  func() { f.Close() },
	}
	s.data = mmapio.Lazy(s.path, uint64(size), e.reopen)
	if d.noMap || !s.data.Aliased() { // which would keep the file open
		s.data = mmapio.FromReaderAt(e, size)
	}
	return s, nil
}

func (d *folder) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, f := range d.kept {
		errs = append(errs, f.Close())
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	d.kept, d.root = nil, nil
	return errors.Join(errs...)
}

// dir is the directory's absolute path, where that could be found out.
func (d *folder) dir() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abs == "" {
		d.abs = filepath.Dir(d.path)
		if abs, err := filepath.Abs(d.abs); err == nil {
			d.abs = abs
		}
	}
	return d.abs
}

// inside is the directory as one that links do not lead out of.
func (d *folder) inside() (*os.Root, error) {
	dir := d.dir()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		d.root = root
	}
	return d.root, nil
}

// keep takes over f for as long as the model lives, unless there are too many.
func (d *folder) keep(f *os.File) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) >= mostKept {
		return false
	}
	d.kept = append(d.kept, f)
	return true
}

// dirEntry is a file of a folder.
type dirEntry struct {
	folder *folder
	name   string
	follow bool
	info   fs.FileInfo // of the file as it was first opened

	file atomic.Pointer[os.File] // that ReadAt reads from, where it is kept open
}

// open opens the file for the first time.
func (e *dirEntry) open() (*os.File, error) {
	return e.find(func(path string, info fs.FileInfo) error {
		e.info = info
		if info.Mode().IsRegular() {
			return nil
		}
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("not a regular file, but %v", info.Mode())}
	})
}

// reopen opens the file again, and makes sure that it is still the one whose index was read.
func (e *dirEntry) reopen() (*os.File, error) {
	return e.find(func(path string, now fs.FileInfo) error {
		if os.SameFile(e.info, now) && e.info.Size() == now.Size() && e.info.ModTime().Equal(now.ModTime()) {
			return nil
		}
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: %d bytes of %v, now %d bytes of %v",
			mmapio.ErrChanged, e.info.Size(), e.info.ModTime(), now.Size(), now.ModTime())}
	})
}

// find opens whatever has the name, if check agrees, without waiting for the other end of a
// pipe.
func (e *dirEntry) find(check func(path string, info fs.FileInfo) error) (*os.File, error) {
	path := filepath.Join(e.folder.dir(), e.name)
	name, stat, open := path, os.Stat, os.OpenFile
	if !e.follow {
		root, err := e.folder.inside()
		if err != nil {
			return nil, err
		}
		name, stat, open = e.name, root.Stat, root.OpenFile
	}
	checked := func(info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return check(path, info)
	}
	if nonblock == 0 {
		if err := checked(stat(name)); err != nil {
			return nil, err
		}
	}
	f, err := open(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if err := checked(f.Stat()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadAt reads on demand, for a model that is not mapped.
func (e *dirEntry) ReadAt(p []byte, off int64) (int, error) {
	if f := e.file.Load(); f != nil {
		return f.ReadAt(p, off)
	}
	f, err := e.reopen()
	if err != nil {
		return 0, err
	}
	if !e.keep(f) {
		defer f.Close()
	}
	return f.ReadAt(p, off)
}

// keep keeps f open for the reads to come, where there is room. Of two that come at the same
// time one may be kept in vain, until the model is closed.
func (e *dirEntry) keep(f *os.File) bool {
	if !e.folder.keep(f) {
		return false
	}
	e.file.Store(f)
	return true
}
