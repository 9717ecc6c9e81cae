// Package terminal knows the streams that a verb writes to: whether they are terminals, text that
// is safe to show there, progress, and notes of waiting.
package terminal

import (
	"cmp"
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"

	"github.com/tensormap/tensormap/internal/report"
)

// Streams are what a verb writes to: results, and everything else.
type Streams struct{ Out, Err io.Writer }

// terminalOf returns the terminal that w writes to, itself or through Results. It returns nil if w is no terminal.
func terminalOf(w io.Writer) *os.File {
	if r, ok := w.(*Results); ok {
		w = r.W
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// IsTerminal reports whether w is shown to a person.
func IsTerminal(w io.Writer) bool { return terminalOf(w) != nil }

// ScreenOf returns how w may be written to. The zero report.Screen is for all but terminals.
func ScreenOf(w io.Writer) report.Screen {
	f := terminalOf(w)
	if f == nil {
		return report.Screen{}
	}
	s := report.Screen{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// Results is standard output, and remembers its first error. A reader such as head may go when it
// has seen enough: such an error is a ReaderGone.
type Results struct {
	W   io.Writer
	Err error
}

// Write writes b, and sets Err if that is the first error.
func (r *Results) Write(b []byte) (int, error) {
	n, err := r.W.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = ReaderGone{err}
	}
	r.Err = cmp.Or(r.Err, err)
	return n, err
}

// ReaderGone is the error of writing to a pipe whose reader has closed it.
type ReaderGone struct{ error }

func (e ReaderGone) Unwrap() error { return e.error }
