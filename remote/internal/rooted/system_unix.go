//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package rooted

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps the opening of a pipe from waiting for another process.
const nonblock = syscall.O_NONBLOCK

// unwritable are the errors of file systems that cannot be written to.
var unwritable = []error{syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EPERM}

// statOf returns what the system tells of a file. If info does not have that, statOf returns one hard link, and zeros for the rest.
func statOf(info fs.FileInfo) *syscall.Stat_t {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s
	}
	return &syscall.Stat_t{Nlink: 1}
}

// linkCount returns how many hard links a file has.
func linkCount(info fs.FileInfo) uint64 { return uint64(statOf(info).Nlink) }

// DiskBytes returns how many bytes a file takes on the disk: fewer than its size if it is sparse.
func DiskBytes(info fs.FileInfo) int64 { return statOf(info).Blocks * 512 } // the unit of st_blocks, whatever the size of a block

// SameFileSystem reports whether the folders a and b are on one device, so that a file can be renamed from a to b. It reports false if one
// of them cannot be examined.
func SameFileSystem(a, b Path) bool {
	inA, errA := os.Stat(a.String())
	inB, errB := os.Stat(b.String())
	return errors.Join(errA, errB) == nil && statOf(inA).Dev == statOf(inB).Dev
}

// LockShared locks an open file until it is closed, so that TryLock fails in all processes. It waits for a process that has locked the file
// by TryLock. Where the file system has no locks, it locks nothing.
func LockShared(f *os.File) { flock(f, syscall.LOCK_SH) }

// TryLock locks the file exclusively until it is closed. It reports false, without waiting, if another open file has a lock on it. Where
// the file system has no locks, it locks nothing and reports true.
func TryLock(f *os.File) bool {
	return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) != syscall.EWOULDBLOCK
}

// flock calls the system's flock until no signal interrupts it, and returns its error.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
