//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package rooted

import (
	"io/fs"
	"os"
	"path/filepath"
)

// nonblock is no flag: on these systems no pipes lie in folders.
const nonblock = 0

// unwritable are the errors of file systems that cannot be written to.
var unwritable = []error{fs.ErrPermission}

// linkCount returns 1: the system does not tell how many hard links a file has.
func linkCount(fs.FileInfo) uint64 { return 1 }

// DiskBytes returns the size of a file in bytes: the system does not tell how many it takes on the disk.
func DiskBytes(info fs.FileInfo) int64 { return info.Size() }

// SameFileSystem reports whether both folders are on the same volume.
func SameFileSystem(a, b Path) bool {
	return filepath.VolumeName(a.String()) == filepath.VolumeName(b.String())
}

// LockShared does nothing: the system keeps open files from being removed.
func LockShared(*os.File) {}

// TryLock locks nothing and reports true: the system keeps open files from being removed.
func TryLock(*os.File) bool { return true }
