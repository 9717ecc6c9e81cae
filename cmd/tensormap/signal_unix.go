//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endingSignals ask the process to end; the last comes when its terminal goes away.
var endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// ignoreBrokenPipes makes a write to a pipe that nobody reads any more an error rather
// than the end of the process, so that temporary files and profiles are taken care of.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }
