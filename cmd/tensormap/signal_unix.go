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

// ignoreBrokenPipes makes a write to a pipe without reader an error, not the end of the process.
// So temporary files and profiles are taken care of.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }

// raise sends s to the process, and leaves it time to come.
func raise(s os.Signal) {
	if syscall.Kill(syscall.Getpid(), s.(syscall.Signal)) == nil {
		time.Sleep(time.Second)
	}
}
