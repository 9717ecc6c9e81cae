//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package sparse

import (
	"os"
	"syscall"
)

// unwritable are the errors of file systems that cannot be written to.
var unwritable = []error{syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EPERM}

// lockShared locks an open file until it is closed, so that no process's Discard removes it. Several processes may have it locked so.
// lockShared waits for a process that has locked the file exclusively. Where the file system has no locks, it locks nothing.
func lockShared(f *os.File) {
	for syscall.Flock(int(f.Fd()), syscall.LOCK_SH) == syscall.EINTR {
	}
}

// lockExclusive locks the file exclusively until it is closed. It reports false, without waiting, if another open file has a lock on it.
// Where the file system has no locks, it locks nothing and reports true.
func lockExclusive(f *os.File) bool {
	for {
		switch syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) {
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return false
		default: // or else the file system knows no locks
			return true
		}
	}
}

// diskBytes returns how many bytes a file takes on the disk: fewer than its size if it is sparse.
func diskBytes(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512 // the unit of st_blocks, whatever the size of a block
	}
	return info.Size()
}
