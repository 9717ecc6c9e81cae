package mmapio

import "golang.org/x/sys/unix"

// Memory returns the size of the machine's physical memory in bytes, or 0 if the platform
// does not tell.
func Memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
