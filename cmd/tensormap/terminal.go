package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// streams are what a verb writes to: results, and everything else.
type streams struct{ out, err io.Writer }

func streamsOf(cmd *cobra.Command) streams { return streams{cmd.OutOrStdout(), cmd.ErrOrStderr()} }

// terminalOf is the terminal behind w, or nil where w is not shown to a person.
func terminalOf(w io.Writer) *os.File {
	if r, ok := w.(*results); ok {
		w = r.w
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

func isTerminal(w io.Writer) bool { return terminalOf(w) != nil }

// screen is how a stream may be written to.
type screen struct {
	width int // in characters; 0 where lines may be as long as they like
	color bool
}

func screenOf(w io.Writer) screen {
	f := terminalOf(w)
	if f == nil {
		return screen{}
	}
	s := screen{color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = width
	}
	return s
}
