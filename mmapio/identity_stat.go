//go:build unix || wasip1 || js

package mmapio

import "syscall"

// number enters what sys, of a fs.FileInfo, says of the inode.
func (id *Identity) number(sys any) bool {
	stat, ok := sys.(*syscall.Stat_t)
	if ok {
		id.device, id.inode, id.changed = uint64(stat.Dev), uint64(stat.Ino), changeTime(stat)
	}
	return ok
}
