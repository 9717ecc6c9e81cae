package plan

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestSpans compares with a set that remembers every byte.
func TestSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var set byteSet
		var bytes [64]bool
		for range 20 {
			off := uint64(rng.IntN(len(bytes)))
			s := byteRange{off, off + uint64(rng.IntN(len(bytes)+1-int(off)))}
			var fresh []byteRange
			for at := s.off; at < s.end; at++ {
				if !bytes[at] {
					fresh = joined(fresh, at)
				}
				bytes[at] = true
			}
			if got := set.insert(s); !slices.Equal(got, fresh) {
				t.Fatalf("%v adds %v, want %v", s, got, fresh)
			}
			var want byteSet
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
func joined(l []byteRange, at uint64) []byteRange {
	if n := len(l); n > 0 && l[n-1].end == at {
		l[n-1].end++
		return l
	}
	return append(l, byteRange{at, at + 1})
}

// TestLimiter: what waits is let through one after the other, never before its time; a little of the
// time that nobody used is made up for, and the rest is gone.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bytesPerSecond = 1 << 20
		begun := time.Now()
		p := New(bytesPerSecond)
		for _, test := range []struct {
			asks  time.Duration // after begun
			n     uint64
			waits time.Duration // after begun
		}{
			{0, bytesPerSecond / 32, time.Second / 32},
			{time.Second / 32, bytesPerSecond / 16, 3 * time.Second / 32},
			{4 * time.Second / 32, bytesPerSecond / 32, 4 * time.Second / 32}, // made up for
			{time.Hour, bytesPerSecond / 4, time.Hour},
			{time.Hour, bytesPerSecond / 16, time.Hour + time.Second/16},
		} {
			time.Sleep(test.asks - time.Since(begun))
			if err := p.Wait(t.Context(), test.n); err != nil || time.Since(begun) != test.waits {
				t.Errorf("%d bytes at %v may go at %v, want %v; %v", test.n, test.asks, time.Since(begun), test.waits, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		for _, p := range []*Plan{New(1), New(0)} {
			if err := p.Wait(ctx, minRange); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				t.Error(time.Since(begun), err)
			}
		}
	})
}
