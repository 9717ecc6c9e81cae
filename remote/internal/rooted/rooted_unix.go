//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rooted

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock keeps the opening of a pipe from waiting for another process.
const nonblock = syscall.O_NONBLOCK

// names returns how many names a file has.
func names(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// renameAt moves a file between open folders.
func renameAt(a *os.File, from string, b *os.File, to string) error {
	return unix.Renameat(int(a.Fd()), from, int(b.Fd()), to)
}

// linkAt gives a file a second name in another folder.
func linkAt(a *os.File, from string, b *os.File, to string) error {
	return unix.Linkat(int(a.Fd()), from, int(b.Fd()), to, 0)
}
