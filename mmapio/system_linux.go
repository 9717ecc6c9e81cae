package mmapio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const hugePage = unix.MADV_HUGEPAGE

// populate maps all pages of b, and waits for them. It fails if a page cannot be had, and on kernels before 5.14.
func populate(b []byte) error {
	return unix.Madvise(b, unix.MADV_POPULATE_READ)
}

// answers is how many pages one mincore call is asked about.
const answers = 4 << 10

// resident counts the resident bytes among b[lo:hi], where b starts on a page.
func resident(b []byte, lo, hi uint64) (count uint64, err error) {
	// x/sys/unix has no Mincore. Its answers go to memory outside the Go heap,
	// whose address may be passed as a plain number.
	vec, err := unix.Mmap(-1, 0, answers, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(vec)
	for start := uint64(0); start < uint64(len(b)); start += answers * pageSize {
		window := b[start:min(uint64(len(b)), start+answers*pageSize)]
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, address(window), uintptr(len(window)), address(vec)); errno != 0 {
			return 0, errno
		}
		for i, answer := range vec[:pageCeil(uint64(len(window)))/pageSize] {
			if answer&1 == 1 { // the other bits are undefined
				page := start + uint64(i)*pageSize
				count += min(page+pageSize, hi) - max(page, lo)
			}
		}
	}
	return count, nil
}

// tellsResidency reports whether mincore tells this process the truth about a file: Linux does so,
// since 5.2, to whoever owns the file or may write it, and tells others that all of it is
// resident. (Somebody with CAP_FOWNER hears the truth, too. To find that out is not worth
// its trouble.)
func tellsResidency(fd int) bool {
	var info unix.Stat_t
	isOwner := unix.Fstat(fd, &info) == nil && int(info.Uid) == unix.Geteuid()
	return isOwner || unix.Faccessat(fd, "", unix.W_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH) == nil
}

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

// Memory returns the size of the machine's physical memory in bytes, or 0 if the platform
// does not tell.
func Memory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
