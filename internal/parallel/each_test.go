package parallel_test

import (
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/internal/parallel"
)

// TestEach has every item done once, whatever the number of workers.
func TestEach(t *testing.T) {
	for _, workers := range []int{-1, 0, 1, 3, 100} {
		for _, n := range []uint64{0, 1, 2, 50} {
			var mu sync.Mutex
			var done []uint64
			began := 0
			err := parallel.Each(workers, parallel.Range(n), func(items iter.Seq[uint64]) error {
				mu.Lock()
				began++
				mu.Unlock()
				for i := range items {
					mu.Lock()
					done = append(done, i)
					mu.Unlock()
				}
				return nil
			})
			slices.Sort(done)
			if err != nil || uint64(len(done)) != n || uint64(began) > n || began > max(workers, 1) {
				t.Errorf("%d workers, %d items: %d began and did %v, %v", workers, n, began, done, err)
			}
			for i, item := range done {
				if item != uint64(i) {
					t.Fatalf("%d workers, %d items: %v", workers, n, done)
				}
			}
		}
	}
}

// TestEachFails has several items fail at once: the error is the first one's, and no item is
// handed out afterwards.
func TestEachFails(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	all := make(chan struct{}) // closed when items 0 to 3 have begun
	var begun sync.WaitGroup
	begun.Add(4)
	go func() { begun.Wait(); close(all) }()
	failed := make(chan struct{})
	err := parallel.Each(4, parallel.Range(1000), func(items iter.Seq[uint64]) error {
		for i := range items {
			if i > 3 {
				t.Errorf("item %d is handed out", i)
				return nil
			}
			begun.Done()
			<-all
			switch i {
			case 3:
				close(failed)
				return second
			case 1:
				<-failed
				return first
			}
			<-failed
			return nil // leaves without an error
		}
		return nil
	})
	if err != first {
		t.Error(err)
	}
}

// TestProgress counts from many goroutines: it never falls, and ends with the total.
func TestProgress(t *testing.T) {
	const n = 100
	last, calls := uint64(0), 0
	p := parallel.Progress{Total: 2 * n, Report: func(done, total uint64) {
		if calls++; done <= last || total != 2*n {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { p.Add(2) })
	}
	wg.Wait()
	if last != 2*n || calls != n {
		t.Errorf("%d calls, %d at last", calls, last)
	}
	new(parallel.Progress).Add(1) // nobody hears
}
