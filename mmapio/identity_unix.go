//go:build unix

package mmapio

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// number enters what sys, of a fs.FileInfo, says of the inode.
func (id *Identity) number(sys any) bool {
	stat, ok := sys.(*syscall.Stat_t)
	if ok {
		id.device, id.inode, id.changed = uint64(stat.Dev), uint64(stat.Ino), changeTime(stat)
	}
	return ok
}

// identityOf does what IdentityOf does, without a fs.FileInfo.
func identityOf(stat *unix.Stat_t) Identity {
	return Identity{
		size:     stat.Size,
		modified: unix.TimespecToNsec(stat.Mtim),
		changed:  unix.TimespecToNsec(stat.Ctim),
		device:   uint64(stat.Dev),
		inode:    uint64(stat.Ino),
	}
}
