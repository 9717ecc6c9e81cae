//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreBrokenPipes makes a write to a pipe that nobody reads any more an error rather
// than the end of the process, so that temporary files and profiles are taken care of.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }
