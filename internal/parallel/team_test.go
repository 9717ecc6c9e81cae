package parallel_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/parallel"
)

// TestTeam runs one team with different numbers of workers, and through failures.
func TestTeam(t *testing.T) {
	var left, done, stopped atomic.Int64
	var fail func() error
	team := parallel.NewTeam(func() error {
		for left.Add(-1) >= 0 {
			done.Add(1)
			if fail != nil {
				return fail()
			}
		}
		return nil
	}, func() { stopped.Add(1); left.Store(0) })
	for _, workers := range []int{0, 1, 2, 7} {
		done.Store(0)
		left.Store(50)
		if err := team.Run(workers); err != nil || done.Load() != 50 {
			t.Errorf("%d workers did %d of 50: %v", workers, done.Load(), err)
		}
	}
	bad := errors.New("bad")
	fail = func() error { return bad }
	left.Store(50)
	if err := team.Run(2); err != bad || stopped.Load() != 1 {
		t.Errorf("%v, stopped %d times, want %v, once", err, stopped.Load(), bad)
	}
	fail = func() error { panic(bad) }
	left.Store(50)
	if v := recovered(func() { team.Run(3) }); v != bad {
		t.Errorf("recovered %v, want %v", v, bad)
	}
	fail = nil
	left.Store(50)
	if err := team.Run(3); err != nil {
		t.Errorf("after failures: %v", err)
	}
}

func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// TestTeamAllocates nothing once it has run, and all its workers can wait for each other.
func TestTeamAllocates(t *testing.T) {
	var meet sync.WaitGroup
	team := parallel.NewTeam(func() error {
		meet.Done()
		meet.Wait()
		return nil
	}, nil)
	run := func() {
		meet.Add(4)
		team.Run(4)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations a run", n)
	}
}
