//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rooted

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock keeps the opening of a pipe from waiting for another process.
const nonblock = syscall.O_NONBLOCK

// linkCount returns how many hard links a file has, or 1 if info does not tell.
func linkCount(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// renameAt renames the file called from in fromDir to the name to in toDir.
func renameAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return unix.Renameat(int(fromDir.Fd()), from, int(toDir.Fd()), to)
}

// linkAt makes a hard link called to in toDir to the file called from in fromDir.
func linkAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return unix.Linkat(int(fromDir.Fd()), from, int(toDir.Fd()), to, 0)
}
