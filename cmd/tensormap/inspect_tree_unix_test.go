//go:build unix

package main

import (
	"context"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// cpuTime is what the process has used so far: other work on the machine is not in it.
func cpuTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Ten times the tensors take about ten times as long, not a hundred times. What disturbs every try, such as other
// work on the same core, is measured again.
func TestManyTensors(t *testing.T) {
	testmode.Sequential(t)
	few, many := manyTensors(t, 2_000), manyTensors(t, 20_000)
	for _, flags := range [][]string{{"--tree"}, {"--tree", "--sort", "size"}, {"--sort", "name"}} {
		took := func(file string) time.Duration {
			start := cpuTime(t)
			if status := run(context.Background(), append([]string{"inspect", file}, flags...), io.Discard, io.Discard); status != exitDone {
				t.Fatal(status)
			}
			return cpuTime(t) - start
		}
		short, long := took(few), took(many)
		for tries := 1; long > 40*short && tries < 20; tries++ {
			short, long = min(short, took(few)), min(long, took(many))
		}
		if long > 40*short {
			t.Errorf("%q: %v for 2,000 tensors, %v for 20,000", flags, short, long)
		}
	}
}
