package plan

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
	r, begun := rate{bytesPerSecond: 1000}, time.Now()
	for _, test := range []struct {
		asks  time.Duration // after begun
		n     uint64
		waits time.Duration // after begun
	}{
		{0, 1, time.Millisecond},
		{0, 500, 501 * time.Millisecond},
		{200 * time.Millisecond, 1, 502 * time.Millisecond},
		{502*time.Millisecond + catchUp/2, 1, 503 * time.Millisecond},
		{503*time.Millisecond + catchUp, 1, 504 * time.Millisecond},
		{time.Hour, 1, time.Hour - catchUp + time.Millisecond},
		{time.Hour, 1000, time.Hour - catchUp + 1001*time.Millisecond},
	} {
		if waits := r.reserve(begun.Add(test.asks), test.n).Sub(begun); waits != test.waits {
			t.Errorf("%d bytes at %v may go at %v, want %v", test.n, test.asks, waits, test.waits)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.reserve(begun, 1<<40)
	if err := r.wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := new(rate).wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
