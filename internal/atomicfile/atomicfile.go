// Package atomicfile writes files that appear under their name complete or not at all.
//
// A [File] is written under a temporary name in the same directory and renamed by Commit.
// Until then, and if anything fails, the old file of that name is untouched. [CommitAll]
// does the same for several files, whose last one leads to the others.
//
// Several processes may write the same files. While one renames files it locks their directory by
// the file .atomicfile.lock, which it removes afterwards. A process that is killed leaves temporary
// files; the next process that writes the same file removes them, but none whose writer is alive.
// The kernel ends both kinds of locks with their process. On file systems and platforms without
// locks, such as WASI, processes do not notice each other.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// File is a file being written. It is not safe for concurrent use. The errors of its
// methods are of type *fs.PathError and name the path that Create was given, not the
// temporary file.
type File struct {
	f      *os.File // locked until it has its name; nil for a file of Remove
	path   string   // as given
	target string   // what f is renamed to; empty if f is written in place
	prefix string   // of the temporary names beside target

	isPrepared bool // f is on disk, and takes no more bytes
	isDone     bool // committed or aborted
}

// Create starts to write the file called path.
//
// A file that is there already gives the new one its permissions, but not its owner; a
// new file has the permissions of os.Create. Where path is a symbolic link, the file that it leads
// to is replaced and the link stays. A path that is no regular file (/dev/stdout, a pipe) cannot
// be replaced and is written in place: Abort then undoes nothing.
func Create(path string) (*File, error) { return CreateMember(path, "") }

// CreateMember does what Create does for a file of a set, such as one shard of a model. The temporary files of a set
// are named after it: whoever writes the set again removes what is left of all its files, however many they were.
func CreateMember(path, set string) (_ *File, err error) {
	defer func() { err = withPath(path, err) }() // some errors name the temporary file
	old, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if old != nil && old.IsDir() {
		return nil, &fs.PathError{Op: "create", Err: syscall.EISDIR}
	}
	target, err := followLinks(path)
	if err != nil {
		return nil, err
	}
	if old != nil && !isReplaceable(old, target) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return nil, err
		}
		return &File{f: f, path: path}, nil
	}
	return createBeside(path, target, set, old)
}

// createBeside creates a temporary file in the directory of target, to which Commit renames it. The temporary file gets the permissions
// of old, the file at target, or the usual ones if old is nil. path is for errors; set is as for CreateMember. It fails if no file can
// be created there, or after Abandon.
func createBeside(path, target, set string, old os.FileInfo) (*File, error) {
	f := &File{path: path, target: target, prefix: temporaryPrefix(target, set)}
	temporaries.Lock()
	defer temporaries.Unlock()
	if temporaries.isAbandoned {
		return nil, fs.ErrClosed
	}
	removeStaleTemporaries(f.prefix)
	var err error
	if f.f, err = createTemporary(target, f.prefix, old); err != nil {
		return nil, err
	}
	temporaries.names[f.f.Name()] = true
	return f, nil
}

// CreateUnlinked does what Create does, in a directory that others may write to: it refuses a path that is a
// symbolic link. A link that is planted later is replaced by the file, and its target is left alone.
func CreateUnlinked(path string) (*File, error) {
	old, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old, err = nil, nil
	case err == nil && old.Mode()&fs.ModeSymlink != 0:
		err = errors.New("it is a symbolic link, which is not followed here: remove it, or write elsewhere")
	case err == nil && !old.Mode().IsRegular():
		err = fmt.Errorf("it exists and is no regular file, but %v", old.Mode().Type())
	}
	var f *File
	if err == nil {
		f, err = createBeside(path, path, "", old)
	}
	return f, withPath(path, err)
}

// Remove returns a File whose commit removes the file at path, for CommitAll with others. If path is a symbolic link, the link is
// removed, and its target stays.
func Remove(path string) *File {
	f := &File{path: path, target: path, prefix: temporaryPrefix(path, ""), isPrepared: true}
	temporaries.Lock()
	defer temporaries.Unlock()
	removeStaleTemporaries(f.prefix)
	return f
}

// withPath returns err, an error of package os, as a *fs.PathError with the given path. It returns nil for nil.
func withPath(path string, err error) error {
	if err == nil {
		return nil
	}
	op := "write"
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		op, err = e.Op, e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		op, err = e.Op, e.Err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// isReplaceable reports whether a rename to target replaces old, and old is a regular file. Links in /proc and /dev/fd read as names
// that need not lead to the file that they open: target may be another file than old.
func isReplaceable(old os.FileInfo, target string) bool {
	now, err := os.Lstat(target)
	return err == nil && old.Mode().IsRegular() && os.SameFile(old, now)
}

const maxLinks = 40 // as Linux follows

// followLinks returns the path that path leads to if its last element is a symbolic link, or the link of a link. No file need exist
// there. It fails if there are more than maxLinks.
func followLinks(path string) (string, error) {
	for range maxLinks {
		link, err := os.Readlink(path)
		if err != nil { // path is no link, or nothing can be created beside it either
			return path, nil
		}
		if !filepath.IsAbs(link) {
			link = dirOf(path) + link // not filepath.Join: to clean "dir/.." away is wrong if dir is a link
		}
		path = link
	}
	return "", &fs.PathError{Op: "create", Err: errors.New("too many symbolic links")}
}

// createTemporary creates the temporary file that becomes target, with a name that begins with prefix. It gets the permissions of old
// unless that is nil. It fails if target names no file, or if the file cannot be created or get the permissions.
func createTemporary(target, prefix string, old os.FileInfo) (f *os.File, err error) {
	if target == dirOf(target) {
		return nil, &fs.PathError{Op: "create", Err: syscall.ENOENT} // "", or "none/"
	}
	perm := fs.FileMode(0o666)
	if old != nil {
		perm = old.Mode().Perm()
	}
	for range 1000 {
		f, err = sys.create(fmt.Sprintf("%s%0*x", prefix, hexDigits, rand.Uint32()), perm)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil || old == nil {
		return f, err
	}
	// The umask may have taken some permissions away.
	if err := f.Chmod(perm); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		f.Close()
		sys.remove(f.Name())
		return nil, err
	}
	return f, nil
}

// Write appends b to the file.
func (f *File) Write(b []byte) (int, error) {
	if f.isPrepared {
		return 0, withPath(f.path, fs.ErrClosed)
	}
	n, err := sys.write(f.f, b)
	return n, withPath(f.path, err)
}

// Prepare syncs the file to disk, so that Commit or CommitAll only renames it. Later writes fail. If Prepare fails,
// the file is aborted.
func (f *File) Prepare() error {
	if f.isDone {
		return withPath(f.path, fs.ErrClosed)
	}
	if f.isPrepared {
		return nil
	}
	f.isPrepared = true
	var err error
	if f.target != "" {
		err = sys.sync(f.f)
	} else {
		err = f.close()
	}
	if err != nil {
		f.Abort()
	}
	return withPath(f.path, err)
}

// close closes the file unless it is closed already, and thereby unlocks it: other processes may then remove a temporary
// file. It fails if closing does.
func (f *File) close() error {
	if err := f.f.Close(); !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}

// Commit syncs the file to disk and renames it to its path. If it fails, the file is aborted, with one exception: the
// new file stays if only syncing the directory after the rename failed.
func (f *File) Commit() error { return CommitAll(f) }

// Abort removes the temporary file. After Commit or Abort it does nothing.
func (f *File) Abort() error {
	isDone := f.isDone
	f.isDone = true
	if isDone || f.f == nil {
		return nil
	}
	err := f.close()
	if f.target != "" {
		err = cmp.Or(sys.remove(f.f.Name()), err)
		temporaries.Lock()
		delete(temporaries.names, f.f.Name())
		temporaries.Unlock()
	}
	return withPath(f.path, err)
}

// dirOf returns the directory of path with a separator at its end, or "" if path has none.
func dirOf(path string) string {
	dir, _ := filepath.Split(path)
	return dir
}

// WriteAt overwrites bytes at offset off with b. It does not move the offset of the next Write. Devices and pipes may
// refuse it.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	if f.isPrepared {
		return 0, withPath(f.path, fs.ErrClosed)
	}
	n, err := f.f.WriteAt(b, off)
	return n, withPath(f.path, err)
}

// ReadAt reads bytes that have been written. It fails after Commit or Abort. A file written in place may refuse it.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	if err == io.EOF {
		return n, err
	}
	return n, withPath(f.path, err)
}

// Truncate changes the size of the file. It does not move the offset of the next Write.
func (f *File) Truncate(size int64) error {
	if f.isPrepared {
		return withPath(f.path, fs.ErrClosed)
	}
	return withPath(f.path, f.f.Truncate(size))
}

// Seek sets the offset of the next Write, as io.Seeker says.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if f.isPrepared {
		return 0, withPath(f.path, fs.ErrClosed)
	}
	at, err := f.f.Seek(offset, whence)
	return at, withPath(f.path, err)
}

// sys has the calls to the file system that tests let fail.
var sys = operations{
	create:  createLocked,
	lock:    tryLock,
	write:   (*os.File).Write,
	sync:    (*os.File).Sync,
	rename:  rename,
	remove:  os.Remove,
	syncDir: syncDir,
}

type operations struct {
	create  func(name string, perm fs.FileMode) (*os.File, error)
	lock    func(name string) (*os.File, error)
	write   func(f *os.File, b []byte) (int, error)
	sync    func(f *os.File) error
	rename  func(from, to string) error
	remove  func(name string) error
	syncDir func(dir string) error
}
