//go:build !linux

package mmapio

import (
	"errors"
	"os"
)

// Direct returns errors.ErrUnsupported: Linux alone has O_DIRECT.
func Direct(f *os.File) error { return pathError("direct", f.Name(), errors.ErrUnsupported) }
