//go:build !unix && !windows

package mmapio

import (
	"errors"
	"os"

	"golang.org/x/exp/mmap"
)

// canMap says what Map and MapFile do on this platform.
const canMap = false

// Map opens a file to be read on demand, by x/exp/mmap, which does not map here either: Slice returns copies.
func Map(path string) (*Mapping, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkFile(path, info); err != nil {
		return nil, err
	}
	r, err := mmap.Open(path)
	if err != nil {
		return nil, pathError("map", path, err)
	}
	m := newMapping(path, uint64(r.Len()), &backing{r: r, close: r.Close, isFile: true})
	m.opened = IdentityOf(info)
	return m, nil
}

// MapFile returns a Mapping of the whole of an open file, wherever its position
// is. f is read on demand and must stay open until Close, which leaves it open.
func MapFile(f *os.File) (*Mapping, error) { return FromFile(f) }

// openShared opens a file to read.
func openShared(path string) (*os.File, error) { return os.Open(path) }

// mapFile fails: this platform does not map.
func mapFile(*os.File, string, int) (*backing, error) { return nil, errors.ErrUnsupported }

// Nothing is Mapped here, so the following functions are never reached.

func madvise([]byte, Advice) error { return errors.ErrUnsupported }
func mlock([]byte) error           { return errors.ErrUnsupported }
func munlock([]byte) error         { return errors.ErrUnsupported }
