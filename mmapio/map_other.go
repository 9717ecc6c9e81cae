//go:build !unix && !windows

package mmapio

import (
	"errors"
	"os"
)

// canMap says what Map and MapFile do on this platform.
const canMap = false

// Map opens a file to be read on demand: Slice returns copies, as OpenReader's.
func Map(path string) (*Mapping, error) {
	return openMapped(path)
}

// MapFile returns a Mapping of the whole of an open file, wherever its position
// is. f is read on demand and must stay open until Close, which leaves it open.
func MapFile(f *os.File) (*Mapping, error) { return FromFile(f) }

// openShared opens a file to read.
func openShared(path string) (*os.File, error) { return os.Open(path) }

func mapFile(*os.File, string, int) (*backing, error) { return nil, errors.ErrUnsupported }

// Nothing is Mapped here, so these are never reached.

func madvise([]byte, Advice) error                           { return errors.ErrUnsupported }
func populate([]byte) error                                  { return errors.ErrUnsupported }
func mlock([]byte) error                                     { return errors.ErrUnsupported }
func munlock([]byte) error                                   { return errors.ErrUnsupported }
func resident(_ []byte, lo, hi uint64) (n uint64, err error) { return 0, errors.ErrUnsupported }
