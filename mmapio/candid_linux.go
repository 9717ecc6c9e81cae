package mmapio

import "golang.org/x/sys/unix"

// candid reports whether mincore tells this process the truth about a file: Linux does so,
// since 5.2, to whoever owns the file or may write it, and tells others that all of it is
// resident. (Somebody with CAP_FOWNER hears the truth, too. To find that out is not worth
// its trouble.)
func candid(fd int, owner uint32) bool {
	return int(owner) == unix.Geteuid() || unix.Faccessat(fd, "", unix.W_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH) == nil
}
