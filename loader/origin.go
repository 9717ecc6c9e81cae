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
}

// originOf returns the origin of the file at path, whose bytes mapping has. It is the zero value if the mapping does
// not know its file.
func originOf(path string, mapping *mmapio.Mapping) origin {
	o := origin{opened: mapping.Identity()}
	if !o.opened.Known() {
		return origin{}
	}
	if abs, err := filepath.Abs(path); err == nil { // for the process may go elsewhere
		path = abs
	}
	o.stat = func() (fs.FileInfo, error) { return os.Stat(path) }
	return o
}

// originIn returns the origin of f, which mapping maps. If the name of f does not lead to that file, the origin has no
// stat: then now can tell nothing.
func originIn(f *os.File, mapping *mmapio.Mapping) origin {
	o := originOf(f.Name(), mapping)
	if now, ok, _ := o.now(); !ok || !now.SameFile(o.opened) {
		return origin{opened: mapping.Identity()}
	}
	return o
}

// now returns the identity of the file that has the name now. ok is false if there is none, or it may not be asked for,
// or the name is not known: only other failures of the system are errors.
func (o *origin) now() (id mmapio.Identity, ok bool, err error) {
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

// changed returns an error if the file that has the name now is not the one that was opened, or the system fails to
// tell.
func (o *origin) changed() error {
	now, ok, err := o.now()
	if !ok {
		return err
	}
	return o.opened.Check(now)
}
