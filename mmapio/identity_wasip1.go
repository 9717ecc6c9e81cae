package mmapio

import "syscall"

func changeTime(stat *syscall.Stat_t) int64 { return int64(stat.Ctime) }
