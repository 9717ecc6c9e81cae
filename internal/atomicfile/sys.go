package atomicfile

import (
	"io/fs"
	"os"
)

// sys has the calls to the file system that tests let fail.
var sys = operations{
	create:  createLocked,
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
