//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rooted

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock keeps the opening of a pipe from waiting for another process.
const nonblock = syscall.O_NONBLOCK

// linkCount returns how many names a file has.
func linkCount(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// renameAt renames the file called from in one open folder to the name to in another.
func renameAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return unix.Renameat(int(fromDir.Fd()), from, int(toDir.Fd()), to)
}

// linkAt gives the file called from in one open folder a second name, to in another.
func linkAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return unix.Linkat(int(fromDir.Fd()), from, int(toDir.Fd()), to, 0)
}
