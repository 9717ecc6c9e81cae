package simd

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestParallelStops counts the chunks that are begun in spite of a failure. Time passes in the
// bubble only once the worker that failed has left.
func TestParallelStops(t *testing.T) { synctest.Test(t, testParallelStops) }

func testParallelStops(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("failed") },
		"panic": func() error { panic("fault") },
	} {
		var calls atomic.Int64
		func() {
			defer func() { recover() }()
			InParallel(0, 500*ParallelGrain, ParallelGrain, func(lo, hi int) error {
				if calls.Add(1) == 1 {
					return fail()
				}
				time.Sleep(time.Millisecond)
				return nil
			})
		}()
		if n := calls.Load(); n > 2 {
			t.Errorf("%s: %d chunks were begun by two workers", name, n)
		}
	}
}

// TestParallelPanics has the caller and a worker panic at the same time.
func TestParallelPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("there is one thread here, whatever is set") // WebAssembly
	}
	var both sync.WaitGroup
	both.Add(2)
	defer func() {
		if p := recover(); p != "fault" {
			t.Errorf("recovered %v", p)
		}
	}()
	InParallel(0, ParallelMin, ParallelGrain, func(lo, hi int) error {
		both.Done()
		both.Wait()
		panic("fault")
	})
}
