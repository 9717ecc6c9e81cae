//go:build linux

package bench

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Reads from a disk and writes to it want a quiet one, and more than fits its caches:
//
//	TMPDIR=/on/that/disk go test ./bench -run '^$' -bench 'Cold|Latency|Copy' -benchtime 10x -disk 1024
var diskMiB = flag.Int("disk", 64, "size in MiB of the models that are read from disk or written to it")

// diskModel is a SafeTensors file on disk, of tensors of 16 MiB. Their values are random, finite and below 2.
func diskModel(b *testing.B, d layout.DType) *os.File {
	b.Helper()
	const each = 16
	var header, comma = "", "{"
	for i := range max(1, *diskMiB/each) {
		header += fmt.Sprintf(`%s"layers.%d.weight":{"dtype":"%v","shape":[%d],"data_offsets":[%d,%d]}`, comma, i, d, each<<20/d.BlockBytes(), i*each<<20, (i+1)*each<<20)
		comma = ","
	}
	header += "}"
	header += strings.Repeat(" ", -len(header)&7) // as writers align what follows
	path := filepath.Join(b.TempDir(), "model.safetensors")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	fmt.Fprintf(f, "%s%s", []byte{byte(len(header)), byte(len(header) >> 8), byte(len(header) >> 16), 0, 0, 0, 0, 0}, header)
	noise := rand.NewChaCha8([32]byte{})
	buf := make([]byte, 1<<20)
	for range max(1, *diskMiB/each) * each {
		noise.Read(buf)
		for i := d.BlockBytes() - 1; i < len(buf); i += d.BlockBytes() {
			buf[i] &^= 0x40 // the greatest bit of the exponent
		}
		if _, err := f.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return f
}

// chill takes f out of the page cache, or skips the benchmark where it stays.
func chill(b *testing.B, f *os.File) {
	b.Helper()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		b.Skip(err)
	}
	m := open(b, f.Name())
	defer m.Close()
	if n, err := m.ResidentBytes(); err != nil || n > m.Stats().MappedBytes/2 { // opening makes the kernel read some ahead
		b.Skipf("%d of %d bytes stay in memory; %v", n, m.Stats().MappedBytes, err)
	}
}

func warm(b *testing.B, f *os.File, readers int) {
	m := open(b, f.Name())
	defer m.Close()
	got, err := m.WarmAll(context.Background(), &loader.WarmOptions{Readers: readers})
	if err != nil || got.Resident > got.Bytes/2 {
		b.Fatalf("%+v, %v", got, err)
	}
}

// BenchmarkCold reads a model from disk by Warm, beside plain sequential reads of the same
// file. The metric warm/plain is the least of the plain ones' medians over the median of Warm by its defaults.
// The least of nine is a lucky one: equal ways come out a few hundredths below 1 after few iterations.
func BenchmarkCold(b *testing.B) {
	f := diskModel(b, layout.BF16)
	ways := []*way{{name: "Warm", work: func() { warm(b, f, 0) }}}
	for _, n := range []int{1, 4} {
		ways = append(ways, &way{name: fmt.Sprintf("Warm/readers=%d", n), work: func() { warm(b, f, n) }})
	}
	warmed := len(ways)
	for _, n := range []int{1, 2, 4} {
		for _, size := range []int64{1, 4, 16} {
			name := fmt.Sprintf("pread/readers=%d/buffer=%dMiB", n, size)
			ways = append(ways, &way{name: name, work: func() { preads(b, f, n, size<<20) }})
		}
	}
	byTurns(b, func() { chill(b, f) }, ways...)
	plain := math.Inf(1)
	for _, w := range ways[warmed:] {
		plain = min(plain, w.seconds(0.5))
	}
	megabytes := float64(*diskMiB<<20) / 1e6
	b.ReportMetric(megabytes/ways[0].seconds(0.5), "warm-MB/s")
	b.ReportMetric(megabytes/plain, "plain-MB/s")
	b.ReportMetric(plain/ways[0].seconds(0.5), "warm/plain")
}

// BenchmarkLatency is how late unrelated goroutines are that want to run every millisecond,
// on two processors, while a cold model is warmed, while it is touched through the mapping
// by as many goroutines, and while nothing happens.
func BenchmarkLatency(b *testing.B) {
	f := diskModel(b, layout.BF16)
	for _, load := range []struct {
		name string
		run  func(m *loader.Model)
	}{
		{"none", func(*loader.Model) { time.Sleep(100 * time.Millisecond) }},
		{"warm", func(m *loader.Model) {
			if _, err := m.WarmAll(context.Background(), nil); err != nil {
				b.Error(err)
			}
		}},
		{"touch", touchAll},
	} {
		b.Run("load="+load.name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
			var late []time.Duration
			for b.Loop() {
				chill(b, f)
				m := open(b, f.Name())
				stop := tick(4)
				load.run(m)
				late = append(late, stop()...)
				m.Close()
			}
			slices.Sort(late)
			for name, part := range map[string]float64{"p50-us": 0.5, "p99-us": 0.99, "max-us": 1} {
				b.ReportMetric(float64(late[int(part*float64(len(late)-1))].Microseconds()), name)
			}
		})
	}
}

// touchAll reads a byte of every page.
func touchAll(m *loader.Model) {
	var wg sync.WaitGroup
	tensors := slices.Collect(m.Tensors())
	for i := range 2 {
		wg.Go(func() {
			for k := i; k < len(tensors); k += 2 {
				view, err := tensors[k].Bytes()
				if err != nil {
					panic(err)
				}
				var sum byte
				for at := 0; at < len(view); at += 4096 {
					sum += view[at]
				}
				sink.Store(uint32(sum))
			}
		})
	}
	wg.Wait()
}

var sink atomic.Uint32 // for the compiler to leave loads alone

// tick lets n goroutines run every millisecond, until stop, which says how late they were.
func tick(n int) (stop func() []time.Duration) {
	const period = time.Millisecond
	late := make([][]time.Duration, n)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				due := time.Now().Add(period)
				time.Sleep(period)
				late[i] = append(late[i], time.Since(due))
			}
		})
	}
	return func() []time.Duration {
		close(done)
		wg.Wait()
		return slices.Concat(late...)
	}
}
