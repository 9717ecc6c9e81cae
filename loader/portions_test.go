package loader

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestSpans compares with a set that remembers every byte.
func TestSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var set spans
		var bytes [64]bool
		for range 20 {
			off := uint64(rng.IntN(len(bytes)))
			s := span{off, off + uint64(rng.IntN(len(bytes)+1-int(off)))}
			var fresh []span
			for at := s.off; at < s.end; at++ {
				if !bytes[at] {
					fresh = joined(fresh, at)
				}
				bytes[at] = true
			}
			if got := set.add(s); !slices.Equal(got, fresh) {
				t.Fatalf("%v adds %v, want %v", s, got, fresh)
			}
			var want spans
			for at, there := range bytes {
				if there {
					want = joined(want, uint64(at))
				}
			}
			if !slices.Equal(set, want) {
				t.Fatalf("after %v the set is %v, want %v", s, set, want)
			}
		}
	}
}

// joined is l with the byte at, which comes behind all others.
func joined(l []span, at uint64) []span {
	if n := len(l); n > 0 && l[n-1].end == at {
		l[n-1].end++
		return l
	}
	return append(l, span{at, at + 1})
}

// TestRateReserve: what waits is let through one after the other; a little of the time that
// nobody used is made up for, and the rest is gone.
func TestRateReserve(t *testing.T) {
	r := rate{bytesPerSecond: 1000}
	begun := time.Now()
	first := r.reserve(1)
	if wait := first.Sub(begun); wait < time.Millisecond || wait > 10*time.Second {
		t.Errorf("after %v", wait)
	}
	if second := r.reserve(500); second.Sub(first) != 500*time.Millisecond {
		t.Errorf("%v later", second.Sub(first))
	}
	if third := r.reserve(1); third.Sub(first) != 501*time.Millisecond {
		t.Errorf("%v later", third.Sub(first))
	}
	r.free = begun.Add(-time.Hour)
	if wait := r.reserve(1).Sub(begun); wait < time.Millisecond-catchUp || wait > 10*time.Second {
		t.Errorf("after %v", wait)
	}
	early := time.Now().Add(-catchUp / 2)
	r.free = early
	if next := r.reserve(1); next.Sub(early) != time.Millisecond {
		t.Errorf("%v later", next.Sub(early))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.reserve(1 << 40)
	if err := r.wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := new(rate).wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
