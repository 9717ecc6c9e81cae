//go:build unix

package mmapio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// canMap says what Map and MapFile do on this platform.
const canMap = true

// Map maps a file. Its descriptor is closed again before Map returns.
//
// It opens the file by itself: a mapping has no use for what an *os.File brings along,
// which takes twice the system calls.
func Map(path string) (*Mapping, error) {
	fd, err := open(path)
	if err == unix.ENXIO { // a socket
		err = cmp.Or(checkPath(path), err)
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return nil, pathError("stat", path, err)
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, cmp.Or(checkPath(path), pathError("map", path, errors.New("not a regular file")))
	}
	if err := checkSize(info.Size, math.MaxInt); err != nil {
		return nil, pathError("map", path, err)
	}
	return mapSize(path, int(info.Size), func(size int) ([]byte, bool, error) { return mapShared(fd, size, info.Uid) })
}

// open opens a file to read. It does not wait where path is a named pipe without a writer.
func open(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// MapFile maps the whole of an open file, wherever its position is, and leaves
// both alone. On Unix f may be closed afterwards; where the platform does not
// map, f is read on demand and must stay open until Close.
func MapFile(f *os.File) (*Mapping, error) {
	size, err := openFileSize(f) // which a nil f is an error of
	if err != nil {
		return nil, err
	}
	path := f.Name()
	return mapSize(path, size, func(size int) (data []byte, candid bool, err error) {
		conn, err := f.SyscallConn()
		if err != nil {
			return nil, false, err
		}
		// Control rather than Fd, which would change the file's mode and would not
		// hold off a concurrent Close.
		closed := conn.Control(func(fd uintptr) {
			var info unix.Stat_t
			if err = unix.Fstat(int(fd), &info); err == nil {
				data, candid, err = mapShared(int(fd), size, info.Uid)
			}
		})
		return data, candid, cmp.Or(closed, err)
	})
}

// mapSize makes a Mapping of a file of size bytes, which mmap maps.
func mapSize(path string, size int, mmap func(size int) (data []byte, candid bool, err error)) (*Mapping, error) {
	if size == 0 { // which mmap refuses
		return newMapping(path, 0, &backing{data: []byte{}, close: closeNothing}), nil
	}
	data, candid, err := mmap(size)
	if err != nil {
		return nil, pathError("map", path, err)
	}
	mappings.add(data, path)
	m := newMapping(path, uint64(size), &backing{data: data, candid: candid, close: func() error {
		mappings.remove(data) // first: the addresses may be another mapping's the moment they are free
		return unix.Munmap(data)
	}})
	m.mapped = true
	return m, nil
}

// mapShared maps a file of owner's.
func mapShared(fd, size int, owner uint32) (data []byte, known bool, err error) {
	data, err = unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	return data, err == nil && candid(fd, owner), err
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
