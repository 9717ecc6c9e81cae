package mmapio

import (
	"errors"
	"fmt"
	"io/fs"
)

// Reasons, for errors.Is. Errors of a Mapping's methods wrap them in a
// *fs.PathError that names the call and the file.
var (
	ErrClosed    = fs.ErrClosed
	ErrRange     = errors.New("out of range")
	ErrTooLarge  = errors.New("too large for this machine's address space")
	ErrChanged   = errors.New("the file is not the one that was opened")
	ErrDirectory = errors.New("is a directory")
	ErrFault     = errors.New("memory fault in the mapping (file truncated, unreadable, or written through a view)")
)

// Reasons why bytes cannot be viewed or copied as elements.
var (
	ErrMisaligned = errors.New("bytes are not aligned for the element type")
	ErrLength     = errors.New("bytes are not a whole number of elements")
	ErrByteOrder  = errors.New("little-endian bytes cannot be viewed on a big-endian machine")
)

// FaultError reports that memory of a live mapping could not be touched.
type FaultError struct {
	Offset uint64 // file offset of the touch; some processors round it down to the page
	Path   string
	Err    error // ErrFault
}

// Error returns file, offset and reason.
func (e *FaultError) Error() string {
	return fmt.Sprintf("%s: offset %d: %v", e.Path, e.Offset, e.Err)
}

// Unwrap returns ErrFault.
func (e *FaultError) Unwrap() error { return e.Err }

// pathError adds call and file to err, unless err already names the file.
func pathError(op, path string, err error) error {
	switch err.(type) {
	case nil, *FaultError, *fs.PathError:
		return err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
