//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const errFull = syscall.ENOSPC

// createHeld creates a file that this process holds until it is closed. The kernel keeps that
// in mind, so that it ends with the process however that ends.
func createHeld(name string, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	if err := hold(f); errors.Is(err, errHeld) || err == nil && !named(f, name) {
		f.Close()
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist} // taken for stale in between
	}
	return f, nil // held, unless the file system knows no locks: then nobody can take it for stale
}

// removeStale removes a file of createHeld that no process holds any more.
func removeStale(name string) {
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		return
	}
	defer f.Close()
	if hold(f) == nil && named(f, name) {
		sys.remove(name)
	}
}

// tryLock opens the file called name, makes it if need be, and holds it. The error is errHeld
// if another has it.
func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o666)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0) // left by another user
	}
	if err != nil {
		return nil, err
	}
	err = hold(f)
	if err == nil && !named(f, name) {
		err = errHeld // and let go since, along with its name
	}
	if errors.Is(err, errHeld) {
		f.Close()
		return nil, errHeld
	}
	return f, nil // without a lock, if the file system knows none
}

// unlock removes the file of tryLock. Another process's lock under that name stays.
func unlock(f *os.File) {
	if named(f, f.Name()) {
		sys.remove(f.Name())
	}
	f.Close()
}

func hold(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EWOULDBLOCK:
			return errHeld
		default:
			return err
		}
	}
}

// named reports whether name leads to f.
func named(f *os.File, name string) bool {
	open, err := f.Stat()
	if err != nil || !open.Mode().IsRegular() {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(open, there)
}

func rename(from, to string) error { return os.Rename(from, to) }
