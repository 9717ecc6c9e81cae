//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const errFull = syscall.ENOSPC

// createLocked creates a file that is locked until this process closes it or ends, however it ends. The file must not
// exist.
func createLocked(name string, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	if err := flock(f); errors.Is(err, errLockedByOther) || err == nil && !hasName(f, name) {
		f.Close()
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist} // another process took it for stale and removed it
	}
	return f, nil // on a file system without locks it is not locked, and no process can take it for stale
}

// removeStale removes the file called name, which createLocked has made, unless a process has it locked. Errors are ignored.
func removeStale(name string) {
	f, err := openNoFollow(name, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if flock(f) == nil && hasName(f, name) {
		sys.remove(name)
	}
}

// tryLock creates the file called name, or opens it, and locks it. The error is errLockedByOther if another process has the
// lock.
func tryLock(name string) (*os.File, error) {
	f, err := openNoFollow(name, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = flock(f)
	if err == nil && !hasName(f, name) {
		err = errLockedByOther // the other process has removed it meanwhile
	}
	if errors.Is(err, errLockedByOther) {
		f.Close()
		return nil, errLockedByOther
	}
	return f, nil // not locked on a file system without locks
}

// openNoFollow opens the file called name unless it is a link. If others may not write to it, it opens the file to read.
func openNoFollow(name string, flag int) (*os.File, error) {
	flag |= syscall.O_NONBLOCK | syscall.O_NOFOLLOW
	f, err := os.OpenFile(name, os.O_RDWR|flag, 0o666)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.OpenFile(name, os.O_RDONLY|flag&^os.O_CREATE, 0) // left by another user
	}
	return f, err
}

// unlock removes the file of tryLock and its lock. Another process's lock file of that name stays.
func unlock(f *os.File) {
	if hasName(f, f.Name()) {
		sys.remove(f.Name())
	}
	f.Close()
}

// flock locks f, or returns errLockedByOther if another process has. Other errors mean that the file system has no locks.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EWOULDBLOCK:
			return errLockedByOther
		default:
			return err
		}
	}
}

// hasName reports whether f is a regular file and name is its path now: not removed, replaced or a link.
func hasName(f *os.File, name string) bool {
	open, err := f.Stat()
	if err != nil || !open.Mode().IsRegular() {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(open, there)
}

// rename does what os.Rename does.
func rename(from, to string) error { return os.Rename(from, to) }
