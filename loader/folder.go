package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// folder is a directory as a source. Between reading a file's index and touching its data no
// descriptor stays open: a model may have more shards than a process may have files open. The
// file that is opened again must be the same one, unchanged.
type folder struct {
	endless
	path  string // of a file in it, as the user called it
	noMap bool

	mu       sync.Mutex
	abs      string     // the directory, wherever the process goes after opening; "" until it is used
	root     *os.Root   // the same, nil until a file is opened that must not be elsewhere
	readable []*os.File // that files read on demand read from
}

// maxOpen is the number of files read on demand that stay open. Others are opened for every read.
const maxOpen = 64

// beside returns the directory that holds the file at path.
func beside(path string, o Options) source { return &folder{path: path, noMap: o.NoMap} }

// open opens the file called name. Its mapping is made when it is first touched, which opens the file again. Until done
// is called, the index is read from the file opened here. The error is that of the system, or of no regular file.
func (d *folder) open(_ context.Context, name string, follow bool) (*stored, error) {
	e := &dirEntry{folder: d, name: name, follow: follow}
	f, err := e.open()
	if err != nil {
		return nil, err
	}
	size := e.opened.Size()
	m := mmapio.Lazy(e.Name(), uint64(size), e.reopen)
	if d.noMap || !m.Aliased() { // which would keep the file open
		m = mmapio.FromReaderAt(e, size)
	}
	s := &stored{data: datafile.New(e.Name(), m), giveUp: nothing, origin: origin{e.opened, e.stat}}
	s.data.Opening(f)
	s.index = s.data.Input(context.Background())
	s.done = func() {
		s.data.Opened()
		f.Close()
	}
	return s, nil
}

// close closes the directory and the files that stay open. It returns all errors.
func (d *folder) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, f := range d.readable {
		errs = append(errs, f.Close())
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	d.readable, d.root = nil, nil
	return errors.Join(errs...)
}

// dir returns the directory's path, absolute if the system tells. The first call decides, wherever the process goes
// later.
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

// inside returns the directory as a root that links do not lead out of. The first call opens it.
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

// dirEntry is a file of a folder.
type dirEntry struct {
	folder *folder
	name   string
	follow bool
	opened mmapio.Identity // of the file as it was first opened

	file atomic.Pointer[os.File] // that ReadAt reads from, if it stays open
}

// Name returns the file's path as the user would call it.
func (e *dirEntry) Name() string { return filepath.Join(filepath.Dir(e.folder.path), e.name) }

// open opens the file for the first time.
func (e *dirEntry) open() (*os.File, error) {
	return e.find(func(info fs.FileInfo) error {
		e.opened = mmapio.IdentityOf(info)
		if info.Mode().IsRegular() {
			return nil
		}
		return fmt.Errorf("not a regular file, but %v", info.Mode())
	})
}

// reopen opens the file again, and checks that it is still the one whose index was read.
func (e *dirEntry) reopen() (*os.File, error) {
	return e.find(func(now fs.FileInfo) error { return e.opened.Check(mmapio.IdentityOf(now)) })
}

// stat describes the file that has the name now.
func (e *dirEntry) stat() (fs.FileInfo, error) {
	name, in, err := e.way()
	if err != nil {
		return nil, err
	}
	info, err := in.stat(name)
	return info, e.named(err)
}

// way holds the calls that reach a file by its name: in the directory, or anywhere.
type way struct {
	stat func(name string) (fs.FileInfo, error)
	open func(name string, flag int, mode fs.FileMode) (*os.File, error)
}

// way returns the name by which the file is reached, and the calls for it: any path if links are followed, else the
// folder as a root. The error is that of opening the root.
func (e *dirEntry) way() (name string, in way, err error) {
	if e.follow {
		return filepath.Join(e.folder.dir(), e.name), way{os.Stat, os.OpenFile}, nil
	}
	root, err := e.folder.inside()
	if err != nil {
		return "", way{}, err
	}
	return e.name, way{root.Stat, root.OpenFile}, nil
}

// named returns err with the path that the user knows, if it is an error of the system about a path.
func (e *dirEntry) named(err error) error {
	if system, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: system.Op, Path: e.Name(), Err: system.Err}
	}
	return err
}

// find opens the file that has the name now, and returns check's error if check refuses it. It does not wait for the
// other end of a pipe: where opening cannot be told so (nonblock is 0), check is asked before too.
func (e *dirEntry) find(check func(info fs.FileInfo) error) (*os.File, error) {
	name, in, err := e.way()
	if err != nil {
		return nil, err
	}
	// checked returns the error of describing the file, or of check.
	checked := func(info fs.FileInfo, err error) error {
		if err != nil {
			return e.named(err)
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
		return nil, e.named(err)
	}
	if err := checked(f.Stat()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadAt reads by a system call, for a model that is not mapped. It opens the file again unless an earlier read has
// left it open. The error may be that the file has changed.
func (e *dirEntry) ReadAt(p []byte, off int64) (int, error) {
	f := e.file.Load()
	if f == nil {
		var err error
		if f, err = e.reopen(); err != nil {
			return 0, err
		}
		if !e.leaveOpen(f) {
			defer f.Close()
		}
	}
	n, err := f.ReadAt(p, off)
	return n, e.named(err)
}

// leaveOpen leaves f open for later reads, until the folder is closed. It returns false if maxOpen files stay open
// already: the caller closes f. Of two reads at the same time each may leave one open, and only the last is used.
func (e *dirEntry) leaveOpen(f *os.File) bool {
	d := e.folder
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.readable) >= maxOpen {
		return false
	}
	d.readable = append(d.readable, f)
	e.file.Store(f)
	return true
}
