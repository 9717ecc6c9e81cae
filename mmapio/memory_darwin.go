package mmapio

import "golang.org/x/sys/unix"

// Memory returns the size of the machine's physical memory in bytes, or 0 if the platform
// does not tell.
func Memory() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}
