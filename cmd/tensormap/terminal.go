package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether w is shown to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// screen is how a stream may be written to.
type screen struct {
	width int // in characters; 0 where lines may be as long as they like
	color bool
}

func screenOf(w io.Writer) screen {
	if !isTerminal(w) {
		return screen{}
	}
	s := screen{color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil {
		s.width = width
	}
	return s
}
