//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rooted

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameAt renames the file called from in fromDir to the name to in toDir.
func renameAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return unix.Renameat(int(fromDir.Fd()), from, int(toDir.Fd()), to)
}

// linkAt makes a hard link called to in toDir to the file called from in fromDir.
func linkAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return unix.Linkat(int(fromDir.Fd()), from, int(toDir.Fd()), to, 0)
}
