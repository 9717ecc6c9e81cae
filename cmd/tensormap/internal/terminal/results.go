package terminal

import (
	"cmp"
	"errors"
	"io"
	"syscall"
)

// Results is standard output, which remembers its first error. Whoever reads it may stop when
// he has seen what he wanted, as head does: such errors are a readerGone.
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
