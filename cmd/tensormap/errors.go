package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/httprange"
)

// usageError is a command line that cannot be obeyed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// misuse says why flags contradict one another, if they do.
type misuse struct {
	is   bool
	text string
}

// firstMisuse returns the first of list that is one as a usageError, or nil.
func firstMisuse(list []misuse) error {
	for _, m := range list {
		if m.is {
			return usageError{errors.New(m.text)}
		}
	}
	return nil
}

// errReported ends a verb that has said on standard error why it failed.
var errReported = errors.New("already reported")

// exitStatus says why cmd failed, if it did, and returns the exit status.
func exitStatus(cmd *cobra.Command, err error, stderr io.Writer) int {
	switch {
	case err == nil, errors.As(err, new(terminal.ReaderGone)):
		return exitDone
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, new(usageError)):
		printError(stderr, err)
		note(stderr, "usage: %s (more: %s --help)", shortUse(cmd), cmd.CommandPath())
		return exitUsage
	}
	printError(stderr, err)
	return exitFailed
}

// shortUse returns the usage of cmd without what may be left out.
func shortUse(cmd *cobra.Command) string {
	needed, _, more := strings.Cut(cmd.UseLine(), " [-")
	if more {
		needed += " [FLAGS]"
	}
	return needed
}

// printError writes err as one line.
func printError(w io.Writer, err error) { note(w, "tensormap: %s", explain(err)) }

// note writes one line, whatever names it quotes.
func note(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, report.Printable(fmt.Sprintf(format, args...)))
}

// explain returns the text of err, and behind it the flag that may help. It returns "" for nil.
func explain(err error) string {
	if err == nil {
		return ""
	}
	msg := err.Error()
	if status, ok := errors.AsType[*httprange.StatusError](err); ok && errors.Is(status, fs.ErrPermission) && status.Elsewhere == "" {
		msg += " (--header 'NAME: VALUE' sends what the server may ask for)"
	}
	if errors.Is(err, httprange.ErrStalled) {
		msg += " (--timeout TIME waits longer)"
	}
	if errors.Is(err, layout.ErrHeader) {
		msg += " (--max-header SIZE allows more)"
	}
	return msg
}
