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
	b, err := mapOwned(fd, path, int(info.Size), info.Uid)
	if err != nil {
		return OpenReader(path)
	}
	return newMapped(path, identityOf(&info), b), nil
}

// openShared opens a file to read, in a way that lets others rename and remove it.
func openShared(path string) (*os.File, error) { return os.Open(path) }

// open opens a file to read. It does not wait for the writer of a named pipe.
func open(path string) (fd int, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// mapFile maps f, which has size bytes and is called path.
func mapFile(f *os.File, path string, size int) (b *backing, err error) {
	err = control(f, func(fd uintptr) error {
		var info unix.Stat_t
		if err := unix.Fstat(int(fd), &info); err != nil {
			return err
		}
		b, err = mapOwned(int(fd), path, size, info.Uid)
		return err
	})
	return b, err
}

// mapOwned does what mapDescriptor does, for a file of owner's.
func mapOwned(fd int, path string, size int, owner uint32) (*backing, error) {
	b, err := mapDescriptor(uintptr(fd), path, size)
	if err == nil && size > 0 {
		b.tellsResidency = tellsResidency(fd, owner)
	}
	return b, err
}

func mapReadOnly(fd uintptr, size int) ([]byte, error) {
	return unix.Mmap(int(fd), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(b []byte) error { return unix.Munmap(b) }

func duplicateDescriptor(fd uintptr) (uintptr, error) {
	syscall.ForkLock.RLock() // AIX has no F_DUPFD_CLOEXEC
	defer syscall.ForkLock.RUnlock()
	own, err := unix.Dup(int(fd))
	if err == nil {
		unix.CloseOnExec(own)
	}
	return uintptr(own), err
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
