//go:build unix

package mmapio

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Map maps a file. Its descriptor is closed again before Map returns.
func Map(path string) (*Mapping, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return MapFile(f)
}

// MapFile maps the whole of an open file, wherever its position is, and leaves
// both alone. On Unix f may be closed afterwards; where the platform does not
// map, f is read on demand and must stay open until Close.
func MapFile(f *os.File) (*Mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	path := f.Name()
	size, err := fileSize(path, info)
	if err != nil {
		return nil, err
	}
	if size == 0 { // which mmap refuses
		return newMapping(path, 0, &backing{data: []byte{}, close: closeNothing}), nil
	}
	data, err := mapShared(f, size)
	if err != nil {
		return nil, pathError("map", path, err)
	}
	mappings.add(data, path)
	m := newMapping(path, uint64(size), &backing{data: data, close: func() error {
		mappings.remove(data) // first: the addresses may be another mapping's the moment they are free
		return unix.Munmap(data)
	}})
	m.mapped = true
	return m, nil
}

func mapShared(f *os.File, size int) (data []byte, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	// Control rather than Fd, which would change the file's mode and would not
	// hold off a concurrent Close.
	closed := conn.Control(func(fd uintptr) {
		data, err = unix.Mmap(int(fd), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	})
	if closed != nil {
		return nil, closed
	}
	return data, err
}

func madvise(b []byte, a Advice) error {
	advice, ok := kernelAdvice[a]
	if !ok {
		return errors.ErrUnsupported
	}
	err := unix.Madvise(b, advice)
	if a == HugePage && err == unix.EINVAL {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

func mlock(b []byte) error   { return unix.Mlock(b) }
func munlock(b []byte) error { return unix.Munlock(b) }
