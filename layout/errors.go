package layout

import (
	"errors"
	"fmt"
	"io/fs"
)

// The reasons an operation on a model file fails, for errors.Is. A FormatError wraps
// one of the first group; the loader and the command return the others too.
var (
	ErrInvalid     = errors.New("invalid")        // a field breaks its format's rules
	ErrTruncated   = errors.New("truncated")      // something lies past the end of the file
	ErrOverlap     = errors.New("overlap")        // two things claim the same bytes
	ErrDuplicate   = errors.New("duplicate")      // a name occurs twice
	ErrLimit       = errors.New("over the limit") // valid perhaps, but past a cap of Limits
	ErrChecksum    = errors.New("checksum mismatch")
	ErrMisaligned  = errors.New("misaligned") // a tensor is not where its file promises
	ErrUnsupported = errors.ErrUnsupported
	ErrFormat      = errors.New("unknown format") // no format recognises the bytes

	// ErrHeader is an ErrLimit about Limits.HeaderBytes.
	ErrHeader = fmt.Errorf("header %w", ErrLimit)

	ErrKey      = errors.New("no usable key") // to read what is encrypted, or to sign and verify
	ErrNotFound = errors.New("not found")
	ErrClosed   = fs.ErrClosed
)

// FormatError says what is wrong with a file and where.
type FormatError struct {
	Format Format
	Offset uint64 // from the start of the file, also where a part of it was decoded
	Field  string // as the format's specification names it
	Reason string // with the value that was found
	Err    error  // one of the sentinels above; nil for a warning that breaks no rule
}

// Error returns all fields in one line.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: offset %d: %s: %s", e.Format, e.Offset, e.Field, e.Explanation())
}

// Explanation returns Reason and the kind of error.
func (e *FormatError) Explanation() string {
	if e.Err == nil {
		return e.Reason
	}
	return fmt.Sprintf("%s (%v)", e.Reason, e.Err)
}

// Unwrap returns the sentinel.
func (e *FormatError) Unwrap() error { return e.Err }

// Errorf makes a FormatError, in which errors.Is finds sentinel.
func Errorf(f Format, offset uint64, field string, sentinel error, format string, args ...any) *FormatError {
	return &FormatError{Format: f, Offset: offset, Field: field, Reason: fmt.Sprintf(format, args...), Err: sentinel}
}

// OfTensor puts the name of a tensor before the reason, and returns e.
func (e *FormatError) OfTensor(name []byte) *FormatError {
	e.Reason = "tensor " + Quote(name) + ": " + e.Reason
	return e
}

// Quote returns a name from a file as an error message shows it: escaped, because it may hold
// anything, and cut if it is long.
func Quote[T ~string | ~[]byte](name T) string {
	const limit = 80
	if len(name) > limit {
		return fmt.Sprintf("%q… (%d bytes)", name[:limit], len(name))
	}
	return fmt.Sprintf("%q", name)
}
