//go:build unix

package main

import (
	"context"
	"io"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what the process has used so far: other work on the machine is not in it.
func cpuTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Ten times the tensors take about ten times as long, not a hundred times.
func TestManyTensors(t *testing.T) {
	few, many := manyTensors(t, 2_000), manyTensors(t, 20_000)
	best := func(args []string) time.Duration {
		best := time.Hour
		for range 3 {
			start := cpuTime(t)
			if status := run(context.Background(), args, io.Discard, io.Discard); status != exitDone {
				t.Fatal(status)
			}
			best = min(best, cpuTime(t)-start)
		}
		return best
	}
	for _, flags := range [][]string{{"--tree"}, {"--tree", "--sort", "size"}, {"--sort", "name"}} {
		of := func(file string) time.Duration { return best(append([]string{"inspect", file}, flags...)) }
		if short, long := of(few), of(many); long > 40*short {
			t.Errorf("%q: %v for 2,000 tensors, %v for 20,000", flags, short, long)
		}
	}
}
