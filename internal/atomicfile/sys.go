package atomicfile

import (
	"io/fs"
	"os"
)

// sys is what the file system is asked to do. Tests let it fail.
var sys = operations{
	create:  createHeld,
	lock:    tryLock,
	write:   (*os.File).Write,
	sync:    (*os.File).Sync,
	rename:  rename,
	remove:  os.Remove,
	syncDir: syncDir,
}

type operations struct {
	create  func(name string, perm fs.FileMode) (*os.File, error)
	lock    func(name string) (*os.File, error)
	write   func(f *os.File, b []byte) (int, error)
	sync    func(f *os.File) error
	rename  func(from, to string) error
	remove  func(name string) error
	syncDir func(dir string) error
}
