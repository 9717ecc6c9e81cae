package mmapio

import "syscall"

func changeTime(stat *syscall.Stat_t) int64 { return stat.Ctime*1e9 + stat.CtimeNsec }
