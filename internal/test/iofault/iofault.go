// Package iofault has writers for tests of what happens when a disk fails.
package iofault

import (
	"errors"
	"io"
)

// ErrDisk is the error of a disk that fails.
var ErrDisk = errors.New("disk on fire")

// Full is a Writer that takes Left bytes. Then it fails with ErrDisk or, if Short is set,
// writes less than it was given and returns no error.
type Full struct {
	Left  int
	Short bool
}

var _ io.Writer = (*Full)(nil)

// Write discards b and counts it.
func (f *Full) Write(b []byte) (int, error) {
	n := min(f.Left, len(b))
	f.Left -= n
	if n < len(b) && !f.Short {
		return n, ErrDisk
	}
	return n, nil
}
