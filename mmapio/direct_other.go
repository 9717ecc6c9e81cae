//go:build !linux

package mmapio

import (
	"errors"
	"os"
)

// DirectAlignment is the number of bytes that offset, length and memory of a read must be multiples of, once Direct has
// succeeded.
const DirectAlignment = 4096

// Direct returns errors.ErrUnsupported: Linux alone has O_DIRECT.
func Direct(f *os.File) error { return pathError("direct", f.Name(), errors.ErrUnsupported) }
