package parallel_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
)

// ending reports how a function ends.
func ending(f func() error) (panicked any, exited bool, err error) {
	panicked, exited = paralleltest.Ending(func() { err = f() })
	return panicked, exited, err
}

var errWork = errors.New("work failed")

// TestEnding has one worker of four end in each way, in a goroutine of its own and in the
// caller's. The others leave when Stop tells them.
func TestEnding(t *testing.T) {
	value := &struct{ int }{1}
	for name, test := range map[string]struct {
		end      func() error
		err      error
		panicked any
		exited   bool
	}{
		"nothing": {end: func() error { return nil }},
		"error":   {end: func() error { return errWork }, err: errWork},
		"panic":   {end: func() error { panic(value) }, panicked: value},
		"Goexit":  {end: func() error { runtime.Goexit(); return nil }, exited: true},
	} {
		for _, here := range []bool{false, true} {
			stop := make(chan struct{})
			stops := 0
			others := func() error {
				if name != "nothing" {
					<-stop
				}
				return nil
			}
			panicked, exited, err := ending(func() error {
				g := parallel.Group{Stop: func() { stops++; close(stop) }}
				for range 3 {
					g.Go(others)
				}
				if here {
					g.Here(test.end)
				} else {
					g.Go(test.end)
				}
				return g.Wait()
			})
			if err != test.err || panicked != test.panicked || exited != test.exited {
				t.Errorf("%s, here %v: %v, %v, %v", name, here, err, panicked, exited)
			}
			if stopped := stops == 1; stops > 1 || stopped != (name != "nothing") {
				t.Errorf("%s, here %v: stopped %d times", name, here, stops)
			}
		}
	}
}

// TestPanicOutdoesError also where it comes later, as does the first of two panics.
func TestPanicOutdoesError(t *testing.T) {
	panicked, _, _ := ending(func() error {
		failed := make(chan struct{})
		g := parallel.Group{Stop: func() { close(failed) }}
		g.Go(func() error { return errWork })
		g.Go(func() error { <-failed; panic("later") })
		return g.Wait()
	})
	if panicked != "later" {
		t.Error(panicked)
	}
}

// TestInheritsPanicOnFault, both settings, and leaves the caller's alone.
func TestInheritsPanicOnFault(t *testing.T) {
	for _, on := range []bool{false, true} {
		old := debug.SetPanicOnFault(on)
		var workers atomic.Int64
		var g parallel.Group
		for range 3 {
			g.Go(func() error {
				if debug.SetPanicOnFault(false) == on {
					workers.Add(1)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil || workers.Load() != 3 {
			t.Errorf("%v: %d workers, %v", on, workers.Load(), err)
		}
		if debug.SetPanicOnFault(old) != on {
			t.Errorf("%v is not what it was", on)
		}
	}
}

// failingWorker has a name to be looked for.
func failingWorker() error { panic("the value") }

// TestCrashNamesTheWorker ends a process by a worker's panic that nobody recovers.
func TestCrashNamesTheWorker(t *testing.T) {
	if os.Getenv("PARALLEL_CRASH") != "" {
		done := make(chan struct{})
		go func() { // where package testing does not recover
			var g parallel.Group
			g.Go(failingWorker)
			g.Wait()
			close(done)
		}()
		<-done
	}
	if runtime.GOARCH == "wasm" {
		t.Skip("no processes here")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashNamesTheWorker$")
	cmd.Env = append(os.Environ(), "PARALLEL_CRASH=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"a worker panicked:", "failingWorker", "panic: the value"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: no %q in\n%s", err, want, out)
		}
	}
}
