package mmapio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Direct makes the system read f past the page cache from now on, by O_DIRECT. It returns an error, and leaves f as it is, if the
// file system cannot, or wants a larger alignment than DirectAlignment.
func Direct(f *os.File) error {
	return pathError("direct", f.Name(), control(f, func(fd uintptr) error {
		var info unix.Statx_t
		err := unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &info)
		if told := err == nil && info.Mask&unix.STATX_DIOALIGN != 0; told { // by Linux 6.1 and later
			switch most := max(info.Dio_mem_align, info.Dio_offset_align); {
			case most == 0:
				return unix.EOPNOTSUPP
			case most > DirectAlignment:
				return fmt.Errorf("%w: it wants an alignment of %d bytes", unix.EOPNOTSUPP, most)
			}
		}
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		if err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_DIRECT)
		}
		return err
	}))
}
