//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

var errFull = errors.New("the disk is full")

// createHeld creates a file. Processes know nothing of each other here.
func createHeld(name string, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

// removeStale does nothing: nobody knows what is stale.
func removeStale(string) {}

// tryLock does nothing.
func tryLock(string) (*os.File, error) { return nil, nil }

// unlock does nothing.
func unlock(*os.File) {}

func rename(from, to string) error { return os.Rename(from, to) }
