package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// way is one of several ways to do the same work.
type way struct {
	name  string
	work  func()
	times []time.Duration
}

// byTurns does all ways once an iteration, in an order of its own, so that other work on the machine
// disturbs them alike. It calls prepare before each, untimed. It logs what each took; the caller reports ratios of
// medians.
func byTurns(b *testing.B, prepare func(), ways ...*way) {
	b.Helper()
	for b.Loop() {
		for _, i := range rand.Perm(len(ways)) {
			prepare()
			begun := time.Now()
			ways[i].work()
			ways[i].times = append(ways[i].times, time.Since(begun))
		}
	}
	var list strings.Builder
	for i, w := range ways {
		fmt.Fprintf(&list, "%-32s %6.3f (%.3f to %.3f)%s", w.name, w.seconds(0.5), w.seconds(0.25), w.seconds(0.75), []string{"    ", "\n"}[i%2])
	}
	b.Logf("seconds, medians and quartiles of %d:\n%s", len(ways[0].times), &list) // testing keeps ten lines
	b.ReportMetric(0, "ns/op")                                                     // of all ways together, which is no figure of anything
}

// seconds returns a quantile of the times: 0.5 is the median.
func (w *way) seconds(quantile float64) float64 {
	times := slices.Clone(w.times)
	slices.Sort(times)
	at := quantile * float64(len(times)-1)
	lo := times[int(at)]
	hi := times[min(int(at)+1, len(times)-1)]
	return lo.Seconds() + (at-float64(int(at)))*(hi-lo).Seconds()
}

// preads reads all of f with so many readers and buffers of so many bytes.
func preads(b *testing.B, f *os.File, readers int, size int64) {
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			buf := make([]byte, size)
			for {
				off := next.Add(size) - size
				if off >= info.Size() {
					return
				}
				if n, err := f.ReadAt(buf, off); n < len(buf) && off+int64(n) != info.Size() {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
