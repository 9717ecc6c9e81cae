//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package remote

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// sameFileSystem reports whether folders a and b are on one device, so that a file can be renamed from a to b. It reports false if one of
// them cannot be examined.
func sameFileSystem(a, b string) bool {
	var ids [2]uint64
	for i, dir := range []string{a, b} {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		ids[i] = uint64(stat.Dev)
	}
	return ids[0] == ids[1]
}

// lockFile locks the file at path, as huggingface_hub does while it downloads. It makes the file if it is missing, and unlock does not
// remove it. While another process has the lock, lockFile waits until ctx ends; it tries at least once. On a file system without locks it
// locks nothing. It fails if the file cannot be opened. When ctx ends it returns the cause of that.
func lockFile(ctx context.Context, path rooted.Path) (unlock func(), err error) {
	f, err := path.Open(os.O_RDWR | os.O_CREATE)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR): // no locks here
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
