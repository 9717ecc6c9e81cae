//go:build !arm

package atomicfile

import (
	"os"
	"syscall"
)

const syncFileRangeWrite = 2 // SYNC_FILE_RANGE_WRITE of linux/fs.h

// startFlush begins to write n bytes at off to the disk, and does not wait. Errors are ignored: Prepare syncs the file.
func startFlush(f *os.File, off, n int64) {
	syscall.SyncFileRange(int(f.Fd()), off, n, syncFileRangeWrite)
}
