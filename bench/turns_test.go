//go:build linux

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

	"golang.org/x/sys/unix"
)

// way is one of several ways to do the same work.
type way struct {
	name  string
	work  func()
	times []time.Duration
	used  []time.Duration // of the processors
}

// byTurns does all ways once an iteration, in an order of its own, so that other work on the machine
// disturbs them alike. It calls prepare before each, untimed. It logs what each took; the caller reports ratios of
// medians.
func byTurns(b *testing.B, prepare func(), ways ...*way) {
	b.Helper()
	for b.Loop() {
		for _, i := range rand.Perm(len(ways)) {
			prepare()
			begun, used := time.Now(), processorTime(b)
			ways[i].work()
			ways[i].times = append(ways[i].times, time.Since(begun))
			ways[i].used = append(ways[i].used, processorTime(b)-used)
		}
	}
	var list strings.Builder
	for i, w := range ways {
		fmt.Fprintf(&list, "%-22s %6.3f (%.3f to %.3f) %6.3f%s", w.name, w.seconds(0.5), w.seconds(0.25), w.seconds(0.75), quantile(w.used, 0.5), []string{"    ", "\n"}[i%2])
	}
	b.Logf("seconds, medians and quartiles of %d, and the processors' medians:\n%s", len(ways[0].times), &list) // testing keeps ten lines
	b.ReportMetric(0, "ns/op")                                                                                  // of all ways together, which is no figure of anything
}

// seconds returns a quantile of the times: 0.5 is the median.
func (w *way) seconds(q float64) float64 { return quantile(w.times, q) }

// over reports the median of w over that of other as name, and that of the processors' time as name with "cpu-" before it: other work
// on the machine changes the second one less.
func (w *way) over(b *testing.B, other *way, name string) {
	b.ReportMetric(w.seconds(0.5)/other.seconds(0.5), name)
	b.ReportMetric(quantile(w.used, 0.5)/quantile(other.used, 0.5), "cpu-"+name)
}

// quantile returns a quantile of times in seconds.
func quantile(times []time.Duration, q float64) float64 {
	times = slices.Clone(times)
	slices.Sort(times)
	at := q * float64(len(times)-1)
	lo := times[int(at)]
	hi := times[min(int(at)+1, len(times)-1)]
	return lo.Seconds() + (at-float64(int(at)))*(hi-lo).Seconds()
}

// processorTime returns the time of processors that this process has taken: other work on the machine changes it little.
func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
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
