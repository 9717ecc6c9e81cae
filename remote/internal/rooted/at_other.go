//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package rooted

import (
	"os"
	"path/filepath"
)

// renameAt renames the file called from in fromDir to the name to in toDir, by their paths.
func renameAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return os.Rename(filepath.Join(fromDir.Name(), from), filepath.Join(toDir.Name(), to))
}

// linkAt makes a hard link called to in toDir to the file called from in fromDir, by their paths.
func linkAt(fromDir *os.File, from string, toDir *os.File, to string) error {
	return os.Link(filepath.Join(fromDir.Name(), from), filepath.Join(toDir.Name(), to))
}
