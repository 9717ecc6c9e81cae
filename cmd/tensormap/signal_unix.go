//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endingSignals ask the process to end; the last comes when its terminal goes away.
var endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// ignoreBrokenPipes makes a write to a pipe that nobody reads any more an error rather
// than the end of the process, so that temporary files and profiles are taken care of.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }

// raise sends s to the process, and leaves it time to come.
func raise(s os.Signal) {
	if syscall.Kill(syscall.Getpid(), s.(syscall.Signal)) == nil {
		time.Sleep(time.Second)
	}
}
