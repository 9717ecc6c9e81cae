//go:build !unix

package main

import (
	"os"
	"syscall"
)

// endingSignals ask the process to end.
var endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

func ignoreBrokenPipes() {}

func raise(os.Signal) {}
