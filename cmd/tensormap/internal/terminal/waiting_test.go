package terminal

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiting: the word comes after three seconds without progress, and not with it.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		n := NewWaiting(nil, "h", 30*time.Second)
		n.w = &said
		wait := func(reads ...time.Duration) {
			var all sync.WaitGroup
			for _, d := range reads {
				all.Go(func() {
					n.During(func() error {
						time.Sleep(d)
						return nil
					})
				})
			}
			all.Wait()
		}
		for range 5 {
			wait(2 * time.Second)
		}
		wait(time.Second, 2*time.Second, 3*time.Second, 4*time.Second, 6*time.Second)
		if said.String() != "" {
			t.Errorf("%q", said.String())
		}
		wait(2*time.Second, 6*time.Second) // four seconds of nothing
		wait(10 * time.Second)
		if strings.Count(said.String(), "waiting for h …\n") != 2 {
			t.Errorf("%q", said.String())
		}
	})
}
