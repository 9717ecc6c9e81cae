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

// createHeld creates a file that this process holds until it is closed: Windows removes no
// file that is open without FILE_SHARE_DELETE, which package os does not ask for.
func createHeld(name string, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

// removeStale removes a file of createHeld that no process holds any more.
func removeStale(name string) { sys.remove(name) }

// tryLock makes the file called name, and holds it. The error is errHeld if another has it.
func tryLock(name string) (*os.File, error) {
	f, err := createHeld(name, 0o666)
	if errors.Is(err, fs.ErrExist) && os.Remove(name) == nil { // left by a process that is no more
		f, err = createHeld(name, 0o666)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) { // or about to be removed
		return nil, errHeld
	}
	return f, err
}

// unlock removes the file of tryLock, unless another has locked that name by then.
func unlock(f *os.File) {
	f.Close()
	sys.remove(f.Name())
}

// rename does what os.Rename does, and says what the likely reason is that Windows does not replace a file.
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
