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
	"github.com/tensormap/tensormap/mmapio"
)

// printError writes err as one line, whatever names it quotes.
func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "tensormap: %s\n", terminal.Printable(explain(err)))
}

// explain words err as file, where, why.
func explain(err error) string {
	msg := err.Error()
	var pe *fs.PathError
	if errors.As(err, &pe) {
		// The system call's name tells a user nothing that the reason does not.
		msg = reword(msg, pe.Error(), pe.Path, pe.Err.Error())
	}
	var fault *mmapio.FaultError
	if errors.As(err, &fault) {
		msg = reword(msg, fault.Error(), fault.Path, fmt.Sprintf("offset %d: %v", fault.Offset, fault.Err))
	}
	var status *httprange.StatusError
	if errors.As(err, &status) && errors.Is(status, fs.ErrPermission) && status.Elsewhere == "" {
		msg += " (--header 'NAME: VALUE' sends what the server may ask for)"
	}
	if errors.Is(err, httprange.ErrStalled) {
		msg += " (--timeout TIME waits longer)"
	}
	return strings.Replace(msg, context.Canceled.Error(), "interrupted", 1)
}

// reword turns part of msg into "path: reason", without a path that msg begins with.
func reword(msg, part, path, reason string) string {
	if path == "" {
		path = `""`
	}
	if !strings.HasPrefix(msg, path+": ") {
		reason = path + ": " + reason
	}
	return strings.Replace(msg, part, reason, 1)
}
