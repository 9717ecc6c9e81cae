package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/tensormap/tensormap/layout/atomicfile"
)

// grace is how long the first signal leaves for an orderly end. It runs out where the
// command waits for something that may never come, such as the reader of a pipe.
const grace = 2 * time.Second

// obeySignals asks for an orderly end at the first signal; a second one, or the end of
// the grace, ends the process there and then.
func obeySignals(cancel context.CancelFunc) {
	// What the process was started to ignore, as by nohup, it goes on to ignore.
	heard := slices.DeleteFunc(slices.Clone(endingSignals), signal.Ignored)
	if len(heard) == 0 {
		return // of none, Notify would make all
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, heard...)
	go func() {
		<-signals
		cancel()
		select {
		case <-signals:
		case <-time.After(grace):
		}
		signal.Reset(heard...) // should the file system be stuck, a third one kills
		atomicfile.Abandon()
		os.Exit(exitFailed)
	}()
}
