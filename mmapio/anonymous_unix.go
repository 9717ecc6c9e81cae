//go:build unix

package mmapio

import "golang.org/x/sys/unix"

// anonymous returns n bytes of zeros that take memory only once they are written to.
func anonymous(n int) (b []byte, free func() error, err error) {
	if n == 0 {
		return []byte{}, closeNothing, nil
	}
	b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return b, func() error { return unix.Munmap(b) }, err
}
