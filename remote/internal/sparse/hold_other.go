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

func lockExclusive(*os.File) bool { return true }

// diskBytes returns how many bytes of the disk a file takes.
func diskBytes(info os.FileInfo) int64 { return info.Size() }
