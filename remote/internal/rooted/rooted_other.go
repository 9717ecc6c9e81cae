//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package rooted

import (
	"os"
	"path/filepath"
)

// nonblock is for systems where pipes lie in folders.
const nonblock = 0

// names returns how many names a file has, as far as the system tells.
func names(os.FileInfo) uint64 { return 1 }

// renameAt moves a file between folders, which were open a moment ago.
func renameAt(a *os.File, from string, b *os.File, to string) error {
	return os.Rename(filepath.Join(a.Name(), from), filepath.Join(b.Name(), to))
}

// linkAt gives a file a second name in another folder.
func linkAt(a *os.File, from string, b *os.File, to string) error {
	return os.Link(filepath.Join(a.Name(), from), filepath.Join(b.Name(), to))
}
