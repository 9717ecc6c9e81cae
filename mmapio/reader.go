package mmapio

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"golang.org/x/exp/mmap"
)

// OpenReader opens a file to be read on demand, by system calls, on every
// platform: Slice returns copies. The file stays open until Close.
func OpenReader(path string) (*Mapping, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	f, err := openShared(path)
	if err != nil {
		return nil, err
	}
	m, err := FromFile(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	m.live.Load().close = f.Close
	return m, nil
}

// FromFile returns a Mapping of the whole of an open file that is read on demand, by system
// calls, on every platform. f must stay open until Close, which leaves it open.
func FromFile(f *os.File) (*Mapping, error) {
	opened, err := identify(f) // refuses a nil f
	if err != nil {
		return nil, err
	}
	m := newMapping(f.Name(), uint64(opened.size), &backing{r: f, close: closeNothing})
	m.opened = opened
	return m, nil
}

// openMapped does what OpenReader does, through x/exp/mmap.
func openMapped(path string) (*Mapping, error) {
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
	m := newMapping(path, uint64(r.Len()), &backing{r: &mappedReader{r, path}, close: r.Close})
	m.opened = IdentityOf(info)
	return m, nil
}

// mappedReader guards x/exp/mmap, which reads through a mapping of its own on
// Linux, macOS and Windows, and keeps that mapping's address to itself.
type mappedReader struct {
	r    *mmap.ReaderAt
	path string
}

// ReadAt takes a fault outside p for one in the file, since the copy touches nothing else.
func (m *mappedReader) ReadAt(p []byte, off int64) (n int, err error) {
	err = guard(func() error {
		n, err = m.r.ReadAt(p, off)
		return err
	}, func(addr uintptr) error {
		if contains(p, addr) {
			return nil
		}
		return &FaultError{Offset: m.firstFault(off, len(p)), Path: m.path, Err: ErrFault}
	})
	return n, err
}

// firstFault returns the offset of the first of n bytes at off that cannot be
// read, a page at a time.
func (m *mappedReader) firstFault(off int64, n int) uint64 {
	page := int64(os.Getpagesize())
	at := off
	b := make([]byte, 1)
	fault := guard(func() error {
		for ; at < off+int64(n); at += page - at%page {
			m.r.ReadAt(b, at)
		}
		return nil
	}, func(uintptr) error { return ErrFault })
	if fault == nil { // the page is back
		return uint64(off)
	}
	return uint64(at)
}

// checkPath refuses what must not be opened: opening a named pipe would wait
// for the pipe's writer.
func checkPath(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checkFile(path, info)
}

// identify returns the identity of an open file that is regular and whose size fits an int.
func identify(f *os.File) (Identity, error) {
	info, err := f.Stat()
	if err != nil {
		return Identity{}, err
	}
	if err := checkFile(f.Name(), info); err != nil {
		return Identity{}, err
	}
	return IdentityOf(info), nil
}

// checkFile refuses what is not a regular file whose size fits an int.
func checkFile(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return pathError("map", path, fmt.Errorf("%w, not a regular file", kind(info.Mode())))
	}
	return pathError("map", path, checkSize(info.Size(), math.MaxInt))
}

func checkSize(size int64, limit uint64) error {
	if size < 0 {
		return fmt.Errorf("%w: size %d", ErrRange, size)
	}
	if uint64(size) > limit {
		return fmt.Errorf("%w: size %d, limit %d", ErrTooLarge, size, limit)
	}
	return nil
}

func kind(mode fs.FileMode) error {
	switch mode.Type() {
	case fs.ModeDir:
		return ErrDirectory
	case fs.ModeNamedPipe:
		return errors.New("is a named pipe")
	case fs.ModeSocket:
		return errors.New("is a socket")
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return errors.New("is a device")
	}
	return fmt.Errorf("is of type %v", mode.Type())
}
