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
	defer func() {
		for _, f := range files {
			f.Abort() // does nothing to files that are committed
		}
	}()
	if len(files) == 0 {
		return nil
	}
	for _, f := range files {
		if err := f.Prepare(); err != nil {
			return err
		}
	}
	last := files[len(files)-1]
	dirs, err := directories(files)
	if err != nil {
		return withPath(last.path, err)
	}
	unlock, err := lockDirs(dirs)
	if err != nil {
		return withPath(last.path, err)
	}
	defer unlock()
	temporaries.Lock() // Abandon waits: a commit that ends halfway leaves no model
	defer temporaries.Unlock()
	if temporaries.isAbandoned {
		return withPath(last.path, fs.ErrClosed)
	}
	n := renames{dirs: dirs}
	if err := n.renameAll(files); err != nil {
		if undoErr := n.undo(); undoErr != nil {
			err = fmt.Errorf("%w; nor could the old files be put back: %v", err, undoErr)
		}
		return err
	}
	for _, f := range files {
		f.isDone = true
		if f.f != nil {
			delete(temporaries.names, f.f.Name())
		}
	}
	err = withPath(last.path, n.sync())
	for _, name := range n.oldFiles {
		sys.remove(name) // a temporary file that stays is no reason to fail
	}
	return err
}

// renames are the renames of a commit: the renames that are done, and what is to be synced or removed after them.
type renames struct {
	dirs     []string // in which files are renamed
	done     []move
	oldFiles []string // temporary names of old files
}

type move struct{ from, to string }

// renameAll renames files so that the last one never leads to a mixture of old files and new ones: see CommitAll. After an
// error the caller undoes the renames.
func (n *renames) renameAll(files []*File) error {
	others, last := files[:len(files)-1], files[len(files)-1]
	if slices.ContainsFunc(others, replaces) {
		if err := n.setAside(last); err != nil {
			return err
		}
		if err := n.sync(); err != nil {
			return withPath(last.path, err)
		}
	}
	for _, f := range others {
		if err := n.setAside(f); err != nil {
			return err
		}
		if err := n.renameToTarget(f); err != nil {
			return err
		}
	}
	if len(others) > 0 {
		if err := n.sync(); err != nil {
			return withPath(last.path, err)
		}
	}
	return n.renameToTarget(last)
}

// replaces reports whether a file exists that the commit of f replaces or removes.
func replaces(f *File) bool {
	_, err := os.Lstat(f.target)
	return f.target != "" && err == nil
}

// setAside renames the old file that f replaces, if there is one, to a temporary name.
func (n *renames) setAside(f *File) error {
	if !replaces(f) {
		return nil
	}
	to, err := createTemporary(f.target, f.prefix, nil) // to reserve its name
	if err != nil {
		return withPath(f.path, err)
	}
	to.Close()
	if err := n.rename(f.target, to.Name()); err != nil {
		sys.remove(to.Name())
		return withPath(f.path, err)
	}
	n.oldFiles = append(n.oldFiles, to.Name())
	return nil
}

// renameToTarget renames the temporary file of f to its target. It does nothing for a file that is written in place, or of
// Remove.
func (n *renames) renameToTarget(f *File) error {
	if f.target == "" || f.f == nil {
		return nil
	}
	if err := f.close(); err != nil {
		return withPath(f.path, err)
	}
	return withPath(f.path, n.rename(f.f.Name(), f.target))
}

// rename renames a file, and records the rename for undo and sync.
func (n *renames) rename(from, to string) error {
	if err := sys.rename(from, to); err != nil {
		return err
	}
	n.done = append(n.done, move{from, to})
	return nil
}

// sync syncs the directories to disk. It stops at the first error.
func (n *renames) sync() error {
	for _, dir := range n.dirs {
		if err := sys.syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// undo reverts the renames, the last one first. The first rename is the rename of the file which leads to the others: its
// name exists again only once they are in place. It stops at the first error.
func (n *renames) undo() error {
	for i, m := range slices.Backward(n.done) {
		if i == 0 {
			if err := n.sync(); err != nil {
				return err
			}
		}
		if err := sys.rename(m.to, m.from); err != nil {
			return err
		}
	}
	return n.sync()
}
