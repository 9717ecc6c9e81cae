// Package atomicfile writes files that appear under their name complete or not at all.
//
// A [File] is written under a temporary name in the same directory and renamed by
// Commit. Until then, and if anything fails, the old file of that name is untouched.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// File is a file being written. It is not safe for concurrent use.
type File struct {
	f      *os.File
	path   string // the name to come; empty where f is written in place
	closed bool
}

// Create starts to write the file called path.
//
// A file that is there already gives the new one its permissions, but not its owner; a
// new file has those of os.Create. Where path is a symbolic link, the file that it leads
// to is replaced and the link stays. What is no regular file (/dev/stdout, a pipe) cannot
// be replaced and is written in place: Abort then takes nothing back.
func Create(path string) (*File, error) {
	old, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if old != nil && old.IsDir() {
		return nil, &os.PathError{Op: "create", Path: path, Err: syscall.EISDIR}
	}
	target, err := resolve(path)
	if err != nil {
		return nil, err
	}
	if old != nil && !replaceable(old, target) {
		target = ""
	}
	f, err := open(path, target, old)
	if err != nil {
		return nil, err
	}
	return &File{f: f, path: target}, nil
}

func open(path, target string, old os.FileInfo) (*os.File, error) {
	if target == "" {
		return os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	}
	return temp(target, old)
}

// replaceable reports whether a rename to target replaces old. Links in /proc and
// /dev/fd read as names that need not lead to the file they open.
func replaceable(old os.FileInfo, target string) bool {
	now, err := os.Lstat(target)
	return err == nil && old.Mode().IsRegular() && os.SameFile(old, now)
}

const maxLinks = 40 // as Linux follows

// resolve follows symbolic links at the end of path, also to where nothing is yet.
func resolve(path string) (string, error) {
	at := path
	for range maxLinks {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return at, nil
		}
		if err != nil {
			return "", err
		}
		link, err := os.Readlink(at)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			// Not filepath.Join: to clean "dir/.." away is wrong where dir is a link.
			dir, _ := filepath.Split(at)
			link = dir + link
		}
		at = link
	}
	return "", &os.PathError{Op: "create", Path: path, Err: errors.New("too many symbolic links")}
}

const (
	maxTries = 1000
	maxBase  = 100 // bytes of the name that the temporary name repeats
)

// temp creates the temporary file beside target, with the permissions of old.
func temp(target string, old os.FileInfo) (*os.File, error) {
	perm := fs.FileMode(0o666)
	if old != nil {
		perm = old.Mode().Perm()
	}
	f, err := createTemp(target, perm)
	if err != nil || old == nil {
		return f, err
	}
	// The umask may have taken some away.
	if err := f.Chmod(perm); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// createTemp is os.CreateTemp with permissions of choice, so that new files have those
// that the umask leaves.
func createTemp(target string, perm fs.FileMode) (*os.File, error) {
	dir, base := filepath.Split(target)
	if base == "" {
		return nil, &os.PathError{Op: "create", Path: target, Err: fs.ErrInvalid}
	}
	base = strings.ToValidUTF8(base[:min(len(base), maxBase)], "")
	for range maxTries {
		name := fmt.Sprintf("%s.%s.tmp-%08x", dir, base, rand.Uint32())
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, &os.PathError{Op: "create", Path: target, Err: fs.ErrExist}
}

// Write appends b to the file.
func (f *File) Write(b []byte) (int, error) { return f.f.Write(b) }

// Commit makes sure that the file is on disk and gives it its name. Where it fails, it
// has done what Abort does. Only where the directory could not be made durable after the
// rename, an error comes with the new file in place.
func (f *File) Commit() error {
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	if f.path == "" {
		return f.f.Close()
	}
	err := f.f.Sync()
	err = errors.Join(err, f.f.Close())
	if err == nil {
		err = os.Rename(f.f.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.f.Name()))
	}
	dir, _ := filepath.Split(f.path)
	return syncDir(dir)
}

// Abort removes what has been written. After Commit or Abort it does nothing.
func (f *File) Abort() error {
	if f.closed {
		return nil
	}
	f.closed = true
	err := f.f.Close()
	if f.path != "" {
		err = errors.Join(err, os.Remove(f.f.Name()))
	}
	return err
}
