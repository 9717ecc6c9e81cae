package atomicfile

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// CommitAll commits several files. The last one leads to the others, as a manifest does. The
// process or the machine may stop at any moment. The last name then stands for the old file with
// the old others, for nothing, or for the new file with the new others.
//
// The last name stands for nothing while other files that exist are replaced. If only the last one
// exists, the change from old to new is one rename.
//
// If two processes commit to one directory at the same time, one waits a while for the other.
//
// If CommitAll fails, all files are aborted and the old ones are back. There is one exception:
// the new files stay if only making a directory durable after the last rename failed.
func CommitAll(files ...*File) error {
	err := commitAll(files)
	for _, f := range files {
		f.Abort() // does nothing to those that are committed
	}
	return err
}

func commitAll(files []*File) error {
	if len(files) == 0 {
		return nil
	}
	for _, f := range files {
		if err := f.Prepare(); err != nil {
			return err
		}
	}
	unlock, err := temporaries.lockAll(files)
	if err != nil {
		return about(files[len(files)-1].path, err)
	}
	defer unlock()
	return temporaries.commit(files)
}

// commit gives all files their names. Abandon waits for it: it takes a moment, and what it
// leaves halfway is no model.
func (r *registry) commit(files []*File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.abandoned {
		return about(files[len(files)-1].path, fs.ErrClosed)
	}
	var n naming
	if err := n.all(files); err != nil {
		if undoErr := n.undo(); undoErr != nil {
			err = fmt.Errorf("%w; nor could the old files be put back: %v", err, undoErr)
		}
		return err
	}
	for _, f := range files {
		f.closed = true
		if f.f != nil {
			delete(r.names, f.f.Name())
		}
	}
	err := about(files[len(files)-1].path, n.sync())
	for _, name := range n.asides {
		sys.remove(name) // a file too many is no reason to fail
	}
	return err
}

// naming are the renames that give files their names.
type naming struct {
	done   []move
	asides []string // what old files are called meanwhile
	dirs   []string // with a rename that may not be on disk yet
}

type move struct{ from, to string }

func (n *naming) all(files []*File) error {
	others, last := files[:len(files)-1], files[len(files)-1]
	if slices.ContainsFunc(others, replaces) {
		if err := n.setAside(last); err != nil {
			return err
		}
		if err := n.sync(); err != nil {
			return about(last.path, err)
		}
	}
	for _, f := range others {
		if err := n.setAside(f); err != nil {
			return err
		}
		if err := n.name(f); err != nil {
			return err
		}
	}
	if err := n.sync(); err != nil {
		return about(last.path, err)
	}
	return n.name(last)
}

func replaces(f *File) bool {
	_, err := os.Lstat(f.target)
	return f.target != "" && err == nil
}

// setAside gives the old file, if there is one, a temporary name.
func (n *naming) setAside(f *File) error {
	if !replaces(f) {
		return nil
	}
	to, err := createTemp(f.target, f.prefix, 0o600) // to have a name that is nobody's
	if err != nil {
		return about(f.path, err)
	}
	to.Close()
	if err := n.rename(f.target, to.Name()); err != nil {
		sys.remove(to.Name())
		return about(f.path, err)
	}
	n.asides = append(n.asides, to.Name())
	return nil
}

func (n *naming) name(f *File) error {
	if f.target == "" || f.f == nil {
		return nil
	}
	if err := f.release(); err != nil {
		return about(f.path, err)
	}
	return about(f.path, n.rename(f.f.Name(), f.target))
}

func (n *naming) rename(from, to string) error {
	if err := sys.rename(from, to); err != nil {
		return err
	}
	n.done = append(n.done, move{from, to})
	n.changed(dirOf(to))
	return nil
}

func (n *naming) changed(dir string) {
	if !slices.Contains(n.dirs, dir) {
		n.dirs = append(n.dirs, dir)
	}
}

// sync makes the renames so far durable.
func (n *naming) sync() error {
	for _, dir := range n.dirs {
		if err := sys.syncDir(dir); err != nil {
			return err
		}
	}
	n.dirs = n.dirs[:0]
	return nil
}

// undo takes the renames back, the last first, so that the name that leads to the others
// stands for something only once these are there. It stops if it cannot.
func (n *naming) undo() error {
	for i, m := range slices.Backward(n.done) {
		if i == 0 {
			if err := n.sync(); err != nil {
				return err
			}
		}
		if err := sys.rename(m.to, m.from); err != nil {
			return err
		}
		n.changed(dirOf(m.from))
	}
	return n.sync()
}
