package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/mmapio"
)

// Changed returns nil if all files of the model are, as far as can be told, what they were when
// they were opened. If one has been written since, or another one has its name, the error wraps
// [mmapio.ErrChanged] and says which. It asks the system about every file's name, and reads
// nothing. A name that has gone, or may not be asked for any more, says nothing about the file
// that it led to. Nothing is known of memory and of readers.
//
// Verify, Warm, and the functions of packages survey and convert ask before they begin and when
// they are done: they fail if a file has changed under them.
func (m *Model) Changed() error {
	if !m.gate.enter() {
		return m.closedError()
	}
	defer m.leave()
	return m.changed()
}

// Changed does what Model.Changed does, also after Close.
func (l *Lease) Changed() error {
	if !l.gate.enter() {
		return l.closedError()
	}
	defer l.leave()
	return l.model.changed()
}

// changed does what Changed does. Its callers have entered.
func (m *Model) changed() error {
	for i := range m.files {
		f := &m.files[i]
		if err := f.changed(); err != nil {
			return f.Wrap(err)
		}
	}
	return nil
}

// originOf returns the origin of the file at path, whose bytes mapping has.
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

// now returns the identity of what has the file's name now; ok is false if nothing can be said.
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

func (o *origin) changed() error {
	now, ok, err := o.now()
	if !ok {
		return err
	}
	return o.opened.Check(now)
}

// intact returns an error if the file has become shorter while it was mapped. Of the page that
// its new end is in, the rest reads as zeros, and does not fault.
func (f *file) intact() error {
	if !f.mapping.Mapped() { // or else the read itself has told
		return nil
	}
	now, ok, _ := f.now()
	if ok && now.SameFile(f.opened) && now.Size() < f.opened.Size() {
		return f.opened.Check(now)
	}
	return nil
}

// worthAsking is how many bytes are read at once where it costs next to nothing to ask the
// system about the file.
const worthAsking = 16 << 20

// confirm checks that the file is intact after n bytes of the tensor have been read, if these
// are many.
func (t Tensor) confirm(n uint64) error {
	if n < worthAsking {
		return nil
	}
	if err := t.file.intact(); err != nil {
		return t.wrap(err)
	}
	return nil
}
