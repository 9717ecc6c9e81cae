//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

var errFull = errors.New("the disk is full")

// createLocked creates a file, which is not locked: there are no locks here.
func createLocked(name string, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

// removeStale does nothing: without locks it is unknown which files are stale.
func removeStale(string) {}

// tryLock does nothing, and returns no file.
func tryLock(string) (*os.File, error) { return nil, nil }

// unlock does nothing.
func unlock(*os.File) {}

// rename does what os.Rename does.
func rename(from, to string) error { return os.Rename(from, to) }
