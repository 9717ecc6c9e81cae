package terminal

import (
	"cmp"
	"errors"
	"io"
	"syscall"
)

// Results is standard output, and remembers its first error. A reader such as head may go when it
// has seen enough: such an error is a ReaderGone.
type Results struct {
	W   io.Writer
	Err error
}

func (r *Results) Write(b []byte) (int, error) {
	n, err := r.W.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = ReaderGone{err}
	}
	r.Err = cmp.Or(r.Err, err)
	return n, err
}

type ReaderGone struct{ error }

func (e ReaderGone) Unwrap() error { return e.error }
