package survey

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestTurns has two jobs share a worker: what is left of the first does not wait for all batches of the second.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := make(chan *worker, 1)
		idle <- new(worker)
		first := &job{workers: idle, allTaken: func() {}}
		second := &job{workers: idle, allTaken: func() {}}
		var turns []string
		err := second.eachBatch(3, func(_ *worker, batch uint64) error {
			turns = append(turns, "second")
			if batch > 0 {
				return nil
			}
			go func() {
				_ = first.eachBatch(1, func(*worker, uint64) error {
					turns = append(turns, "first")
					return nil
				})
			}()
			synctest.Wait() // until the first job waits for the worker
			return nil
		})
		if want := []string{"second", "first", "second", "second"}; err != nil || !slices.Equal(turns, want) {
			t.Errorf("turns %v, want %v; %v", turns, want, err)
		}
	})
}
