package sparse

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockRange locks n bytes of file at off against other processes, and against other Files of this process. It waits while another has
// locked one of the bytes. unlock ends the lock, and so does the end of the process. On a file system without locks, lockRange locks
// nothing. It fails only when ctx ends, with the cause of ctx.
func lockRange(ctx context.Context, file *os.File, off, n int64) (unlock func(), err error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: off, Len: n}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock)
		switch {
		case err == nil:
			return func() {
				lock.Type = unix.F_UNLCK
				unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock)
			}, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES): // the file system has no locks
			return func() {}, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
