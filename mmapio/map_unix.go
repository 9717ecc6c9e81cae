//go:build unix

package mmapio

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// canMap says that Map and MapFile map on this platform, as a rule.
const canMap = true

// Map maps a file. Its descriptor is closed again before Map returns. The system may refuse to
// map the file, for want of address space or because its file system cannot. It is then read on
// demand, as by OpenReader.
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
	b, err := mapDescriptor(fd, path, int(info.Size), info.Uid)
	if err != nil {
		return OpenReader(path)
	}
	return newMapped(path, identityOf(&info), b), nil
}

// open opens a file to read. It does not wait for the writer of a named pipe.
func open(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// MapFile maps the whole of an open file, wherever its position is, and leaves
// both alone. On Unix f may be closed afterwards. If the platform does not
// map, f is read on demand and must stay open until Close. A file that the system
// refuses to map is read by a descriptor of the Mapping's own.
func MapFile(f *os.File) (*Mapping, error) {
	opened, err := identify(f) // refuses a nil f
	if err != nil {
		return nil, err
	}
	b, err := mapFile(f, f.Name(), int(opened.size))
	if err != nil {
		own, failed := duplicate(f)
		if failed != nil { // perhaps f is not open for reading, which mapping has said
			return nil, pathError("map", f.Name(), err)
		}
		b = &backing{r: own, close: own.Close}
	}
	return newMapped(f.Name(), opened, b), nil
}

// mapFile maps f, which has size bytes and is called path.
func mapFile(f *os.File, path string, size int) (b *backing, err error) {
	err = control(f, func(fd int) error {
		var info unix.Stat_t
		if err := unix.Fstat(fd, &info); err != nil {
			return err
		}
		b, err = mapDescriptor(fd, path, size, info.Uid)
		return err
	})
	return b, err
}

// duplicate returns f, which has a byte to be read, with a descriptor of its own.
func duplicate(f *os.File) (own *os.File, err error) {
	err = control(f, func(fd int) error {
		syscall.ForkLock.RLock() // AIX has no F_DUPFD_CLOEXEC
		defer syscall.ForkLock.RUnlock()
		fd, err := unix.Dup(fd)
		if err == nil {
			unix.CloseOnExec(fd)
			own = os.NewFile(uintptr(fd), f.Name())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := own.ReadAt(make([]byte, 1), 0); err != nil {
		own.Close()
		return nil, err
	}
	return own, nil
}

// control runs work with f's descriptor. Unlike Fd, it does not change the file's mode, and
// holds off a concurrent Close.
func control(f *os.File, work func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	closed := conn.Control(func(fd uintptr) { err = work(int(fd)) })
	return cmp.Or(closed, err)
}

// identityOf does what IdentityOf does, without a fs.FileInfo.
func identityOf(stat *unix.Stat_t) Identity {
	return Identity{
		size:     stat.Size,
		modified: unix.TimespecToNsec(stat.Mtim),
		changed:  unix.TimespecToNsec(stat.Ctim),
		device:   uint64(stat.Dev),
		inode:    uint64(stat.Ino),
	}
}

// newMapped returns the Mapping of a file that b has the bytes of.
func newMapped(path string, opened Identity, b *backing) *Mapping {
	m := newMapping(path, uint64(opened.size), b)
	m.opened = opened
	m.mapped.Store(len(b.data) > 0)
	return m
}

// mapPages is unix.Mmap. Tests have it fail.
var mapPages = unix.Mmap

// mapDescriptor maps the file of owner's that fd is open for, which has size bytes.
func mapDescriptor(fd int, path string, size int, owner uint32) (*backing, error) {
	if size == 0 { // which mmap refuses
		return &backing{data: []byte{}, close: closeNothing}, nil
	}
	data, err := mapPages(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	mappings.Store(address(data), extent{uintptr(len(data)), path})
	return &backing{data: data, tellsResidency: tellsResidency(fd, owner), close: func() error {
		mappings.Delete(address(data)) // first: the addresses may be another mapping's the moment they are free
		return unix.Munmap(data)
	}}, nil
}

// kernelAdvice are the kernel's numbers, in the order of the constants. Only some kernels have the last.
var kernelAdvice = [...]int{unix.MADV_NORMAL, unix.MADV_SEQUENTIAL, unix.MADV_RANDOM, unix.MADV_WILLNEED, unix.MADV_DONTNEED, hugePage}

func madvise(b []byte, a Advice) error {
	if int(a) >= len(kernelAdvice) || kernelAdvice[a] < 0 {
		return errors.ErrUnsupported
	}
	err := unix.Madvise(b, kernelAdvice[a])
	if a == HugePage && err == unix.EINVAL {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

func mlock(b []byte) error   { return unix.Mlock(b) }
func munlock(b []byte) error { return unix.Munlock(b) }
