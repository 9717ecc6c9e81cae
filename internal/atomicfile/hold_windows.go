package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const errFull = syscall.Errno(112) // ERROR_DISK_FULL

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
