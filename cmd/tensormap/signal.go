package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/tensormap/tensormap/internal/atomicfile"
)

// grace is how long the first signal leaves for an orderly end. It runs out if the
// command waits for something that may never come, such as the reader of a pipe.
var grace = 2 * time.Second

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted error = interrupted{context.Canceled}

type interrupted struct{ error }

func (interrupted) Error() string   { return "interrupted" }
func (i interrupted) Unwrap() error { return i.error }

// obeySignals asks for an orderly end at the first signal; a second one, or the end of the grace, ends the process there and then. Once
// the work has ended, finish ends the process by the signal that came, if one did, and returns if none.
func obeySignals(cancel context.CancelCauseFunc) (finish func()) {
	// The process goes on to ignore what it was started to ignore, as by nohup.
	heard := slices.DeleteFunc(slices.Clone(endingSignals), signal.Ignored)
	if len(heard) == 0 {
		return func() {} // of none, Notify would make all
	}
	signals, first := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, heard...)
	go func() {
		s := <-signals
		first <- s
		cancel(errInterrupted)
		select {
		case s = <-signals:
		case <-time.After(grace):
		}
		endBySignal(s, heard)
	}()
	return func() {
		select {
		case s := <-first:
			endBySignal(s, heard)
		default:
		}
	}
}

// endBySignal ends the process by the signal s, no longer handled. A shell sees that it was a signal, and ends its loop too.
func endBySignal(s os.Signal, heard []os.Signal) {
	signal.Reset(heard...) // should the file system be stuck, one more kills
	atomicfile.Abandon()
	raise(s)
	os.Exit(exitFailed) // if no signal ends a process
}
