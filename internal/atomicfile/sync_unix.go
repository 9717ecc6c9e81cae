//go:build unix

package atomicfile

import (
	"cmp"
	"errors"
	"os"
	"syscall"
)

// syncDir syncs the renames in dir to disk. It does nothing if the file system cannot, or if the directory may be
// written to but not read.
func syncDir(dir string) error {
	d, err := os.Open(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
