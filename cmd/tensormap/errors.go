package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/loader/httprange"
)

// printError writes err as one line, whatever names it quotes.
func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "tensormap: %s\n", terminal.Printable(explain(err)))
}

// explain returns the text of err, and behind it the flag that may help. It names an interrupt
// as such, which errors call "context canceled".
func explain(err error) string {
	msg := strings.Replace(err.Error(), context.Canceled.Error(), "interrupted", 1)
	var status *httprange.StatusError
	if errors.As(err, &status) && errors.Is(status, fs.ErrPermission) && status.Elsewhere == "" {
		msg += " (--header 'NAME: VALUE' sends what the server may ask for)"
	}
	if errors.Is(err, httprange.ErrStalled) {
		msg += " (--timeout TIME waits longer)"
	}
	return msg
}
