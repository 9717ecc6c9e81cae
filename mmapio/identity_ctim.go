//go:build unix && !darwin && !freebsd && !netbsd

package mmapio

import "syscall"

// changeTime returns when the inode was last written, in nanoseconds since 1970.
func changeTime(stat *syscall.Stat_t) int64 { return int64(stat.Ctim.Sec)*1e9 + int64(stat.Ctim.Nsec) }
