//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// syncDir makes a rename in dir durable. Some file systems cannot, and a directory that
// may be written to need not be readable; then the rename is as safe as it gets.
func syncDir(dir string) error {
	d, err := os.Open(orDot(dir))
	if err != nil {
		return nil
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
