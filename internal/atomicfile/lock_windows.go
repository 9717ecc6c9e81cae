package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const (
	errSharing = syscall.Errno(32)  // ERROR_SHARING_VIOLATION
	errFull    = syscall.Errno(112) // ERROR_DISK_FULL
)

// createLocked creates a file that no process can remove until this one closes it or ends: Windows removes no file
// that is open without FILE_SHARE_DELETE, which package os does not ask for.
func createLocked(name string, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

// removeStale removes a file of createLocked unless a process has it open. Errors are ignored.
func removeStale(name string) { sys.remove(name) }

// tryLock creates the file called name as a lock. The error is errLockedByOther if another process has it open.
func tryLock(name string) (*os.File, error) {
	f, err := createLocked(name, 0o666)
	if errors.Is(err, fs.ErrExist) && os.Remove(name) == nil { // left by a process that has ended
		f, err = createLocked(name, 0o666)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) { // or about to be removed
		return nil, errLockedByOther
	}
	return f, err
}

// unlock removes the file of tryLock, unless another process has locked that name meanwhile.
func unlock(f *os.File) {
	f.Close()
	sys.remove(f.Name())
}

// rename does what os.Rename does. If Windows refuses to replace a file, the error says the likely reason.
func rename(from, to string) error {
	err := os.Rename(from, to)
	link, ok := errors.AsType[*os.LinkError](err)
	if !ok || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errSharing) {
		return err
	}
	if _, missing := os.Lstat(to); missing != nil {
		return err
	}
	link.Err = fmt.Errorf("%w: Windows replaces no file that a process has open or mapped; is a model of it still open?", link.Err)
	return link
}
