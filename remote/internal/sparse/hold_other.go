//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package sparse

import (
	"io/fs"
	"os"
)

// unwritable are the errors of file systems that cannot be written to.
var unwritable = []error{fs.ErrPermission}

// Hold reports whether path leads to the file: the system keeps open files from being removed.
func Hold(f *os.File, path string) bool { return named(f, path) }

func claim(*os.File) bool { return true }

// diskBytes returns how much room a file takes.
func diskBytes(info os.FileInfo) int64 { return info.Size() }
