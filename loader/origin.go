package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/mmapio"
)

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
