//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package sparse

import (
	"io/fs"
	"os"
)

// unwritable are the errors of file systems that cannot be written to.
var unwritable = []error{fs.ErrPermission}

// lockShared does nothing: the system keeps open files from being removed.
func lockShared(*os.File) {}

// lockExclusive locks nothing and reports true: the system keeps open files from being removed.
func lockExclusive(*os.File) bool { return true }

// diskBytes returns the size of a file in bytes: the system does not tell how many it takes on the disk.
func diskBytes(info os.FileInfo) int64 { return info.Size() }
