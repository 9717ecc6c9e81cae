package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// printError writes err as one line, whatever names it quotes.
func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "tensormap: %s\n", printable(explain(err)))
}

// explain words err as file, where, why.
func explain(err error) string {
	msg := err.Error()
	// The system call's name tells a user nothing that the reason does not.
	if pe, ok := err.(*fs.PathError); ok {
		msg = pe.Path + ": " + pe.Err.Error()
	}
	return strings.Replace(msg, context.Canceled.Error(), "interrupted", 1)
}
