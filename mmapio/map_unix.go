//go:build unix

package mmapio

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openShared opens a file to read, in a way that lets others rename and remove it. It does not wait for the writer of a named pipe.
func openShared(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// mapReadOnly maps size bytes of the file that fd is open for. It fails if the system refuses.
func mapReadOnly(fd uintptr, size int) ([]byte, error) {
	return unix.Mmap(int(fd), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

// unmap ends a mapping of mapReadOnly.
func unmap(b []byte) error { return unix.Munmap(b) }

// duplicateDescriptor returns another descriptor of the file that fd is open for, which programs that are executed do not inherit.
func duplicateDescriptor(fd uintptr) (uintptr, error) {
	syscall.ForkLock.RLock() // AIX has no F_DUPFD_CLOEXEC
	defer syscall.ForkLock.RUnlock()
	own, err := unix.Dup(int(fd))
	if err == nil {
		unix.CloseOnExec(own)
	}
	return uintptr(own), err
}

// kernelAdvice are the kernel's numbers, in the order of the constants. Only some kernels have the last.
var kernelAdvice = [...]int{unix.MADV_NORMAL, unix.MADV_SEQUENTIAL, unix.MADV_RANDOM, unix.MADV_WILLNEED, unix.MADV_DONTNEED, hugePage}

// madvise gives the kernel advice a about b, which starts on a page. Advice that the kernel does not know is errors.ErrUnsupported.
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

// mlock locks the pages of b in memory. It fails past the limit of the system.
func mlock(b []byte) error { return unix.Mlock(b) }

// munlock undoes mlock.
func munlock(b []byte) error { return unix.Munlock(b) }

// anonymous returns n bytes of zeros that take memory only once they are written to.
func anonymous(n int) (b []byte, free func() error, err error) {
	if n == 0 {
		return []byte{}, closeNothing, nil
	}
	b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return b, func() error { return unix.Munmap(b) }, err
}
