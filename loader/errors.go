package loader

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/mmapio"
)

// Errors that callers test for with errors.Is. Package layout has the errors of damaged files.
var (
	// ErrClosed means that the model, or the lease it came through, is closed. It is fs.ErrClosed.
	ErrClosed = layout.ErrClosed
	// ErrNotFound means that the model has no tensor of that name.
	ErrNotFound = layout.ErrNotFound
	// ErrKey means that a tensor is encrypted, and Options.Key is not set or has another key. It also means
	// that Options.Key is set and a file is not encrypted.
	ErrKey = layout.ErrKey
	// ErrUnsupported means that the file is valid and the work cannot be done: a dtype
	// without a value in float32, say. It is errors.ErrUnsupported.
	ErrUnsupported = layout.ErrUnsupported
	// ErrRange means that a request leaves the tensor or the file, or that memory handed in is not
	// of the size it needs.
	ErrRange = mmapio.ErrRange
	// ErrChanged means that a file is not the one that was opened, or changed while it was read.
	ErrChanged = mmapio.ErrChanged
)

// ErrTooLarge means that a tensor would take more heap than Options.TensorBytes allows, or
// than a slice can have.
var ErrTooLarge = content.ErrTooLarge

// fileError says which file an error is about. Its text has the file's name once, whether or
// not the cause names it too, as errors of the system and of mappings do.
type fileError struct {
	path string
	err  error
}

// inFile returns err as an error about the file at path, or nil if err is nil.
func inFile(path string, err error) error {
	if err == nil {
		return nil
	}
	return &fileError{path, err}
}

// guardFile calls f, which reads the file at path. It fails if f does, or if the mapped file has lost bytes that f reads. Errors
// name the file.
func guardFile(path string, f func() error) error { return inFile(path, mmapio.Guard(f)) }

func (e *fileError) Unwrap() error { return e.err }

// Error returns the file's path and the text of e.err. If that text has the path too, as errors of the system and faults of a
// mapping do, Error leaves it out there.
func (e *fileError) Error() string {
	msg := e.err.Error()
	if fault, ok := errors.AsType[*mmapio.FaultError](e.err); ok && fault.Path == e.path {
		msg = strings.Replace(msg, fault.Error(), strings.TrimPrefix(fault.Error(), e.path+": "), 1)
	}
	if system, ok := errors.AsType[*fs.PathError](e.err); ok && system.Path == e.path {
		msg = strings.Replace(msg, system.Error(), system.Op+": "+system.Err.Error(), 1)
	}
	return e.path + ": " + msg
}

// isUnreadable reports whether err says that bytes could not be read: a fault or an error of the system. It reports false for encrypted
// bytes that are not authentic, whose error may wrap the path, and for any other error about content.
func isUnreadable(err error) bool {
	return !errors.As(err, new(*decrypted.Error)) && (errors.Is(err, mmapio.ErrFault) || errors.As(err, new(*fs.PathError)))
}

// formatErrorIn returns the FormatError in err, which says what is wrong in a file. It returns nil if there is none,
// or if err says that bytes could not be read.
func formatErrorIn(err error) *layout.FormatError {
	if fe, ok := errors.AsType[*layout.FormatError](err); ok && !isUnreadable(err) {
		return fe
	}
	return nil
}
