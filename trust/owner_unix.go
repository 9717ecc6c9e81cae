//go:build unix

package trust

import (
	"io/fs"
	"syscall"
)

// ownedByRoot reports whether the file belongs to root.
func ownedByRoot(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
