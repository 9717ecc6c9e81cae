//go:build !linux

package mmapio

import (
	"errors"
	"os"
)

const hugePage = -1 // no such advice on Unix

// populate fails: the caller touches the pages.
func populate([]byte) error { return errors.ErrUnsupported }

// resident fails: nothing tells which pages are in memory. Windows knows the pages that this process uses, and not what others left there.
func resident(_ []byte, lo, hi uint64) (count uint64, err error) { return 0, errors.ErrUnsupported }

// tellsResidency reports false: resident fails.
func tellsResidency(fd int) bool { return false }

// Direct returns errors.ErrUnsupported: Linux alone has O_DIRECT.
func Direct(f *os.File) error { return pathError("direct", f.Name(), errors.ErrUnsupported) }
