package peers

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// BenchmarkExpand compares expansions, in GB/s of float32 written.
func BenchmarkExpand(b *testing.B) {
	expanders, err := allExpanders()
	if err != nil {
		b.Fatal(err)
	}
	compareConversions(b, expanders, oursExpanding, allSizes)
}

// BenchmarkQuantize compares quantizations without importance, in GB/s of float32 read.
func BenchmarkQuantize(b *testing.B) {
	compareConversions(b, slices.Concat(ggmlQuantizers, ggmlRacers), oursQuantizing, allSizes)
}

// BenchmarkImportance compares quantizations by importance, in GB/s of float32 read, in cache only.
func BenchmarkImportance(b *testing.B) {
	compareConversions(b, ggmlWeighted, oursWeighing, allSizes[:1])
}

// A bufferSize is a number of bytes of float32, and its name.
type bufferSize struct {
	bytes int
	name  string
}

// allSizes has the sizes of buffers. The last one is beyond the caches, and left out with -short.
var allSizes = []bufferSize{{64 << 10, "64KiB"}, {256 << 10, "256KiB"}, {256 << 20, "256MiB"}}

// compareConversions runs a benchmark of each peer at each size beside ours, on one core. Beyond the caches
// it runs one on all cores too.
func compareConversions(b *testing.B, peers []peer, ours func(d layout.DType, cores int) peer, sizes []bufferSize) {
	for _, p := range peers {
		for _, size := range sizes {
			name := fmt.Sprintf("%v/%s/%s", p.d, size.name, p.name)
			compare := func(b *testing.B, sides ...peer) {
				floats, blocks := buffers(p.d, size.bytes/4)
				c := contest{unit: "GB/s", units: float64(size.bytes) / 1e9}
				for _, side := range sides {
					c.sides = append(c.sides, func(passes int) { side.run(floats, blocks, passes) })
				}
				c.run(b)
			}
			big := size.bytes >= 16<<20 // well above the size from which dequant starts goroutines
			if big && testing.Short() {
				continue
			}
			b.Run(name, func(b *testing.B) { compare(b, ours(p.d, 1), p) })
			if big && runtime.GOMAXPROCS(0) > 1 {
				b.Run(name+"/all_cores", func(b *testing.B) { compare(b, ours(p.d, dequant.AllCores), onAllCores(p)) })
			}
		}
	}
}

// BenchmarkDot compares products of rows of dotCols elements with a vector: in cache on one core, in billions of weights
// a second; over 256 MiB on all cores beside reading, in GB/s; and of a matrix of 14336 rows, in rows a second.
func BenchmarkDot(b *testing.B) {
	for _, p := range dotPeers {
		b.Run(fmt.Sprintf("%v/cache/%s", p.d, p.name), func(b *testing.B) {
			const rows = 4
			v := p.vector(rand.New(rand.NewPCG(1, uint64(p.d))), dotCols)
			src, dst := p.rows(rows, dotCols), make([]float32, rows)
			dsts, activations := [][]float32{dst}, []*dot.Activation{v.ours}
			contest{unit: "Gweights/s", units: rows * dotCols / 1e9, sides: []func(passes int){
				func(passes int) {
					for range passes {
						check(dot.Mat(dsts, p.d, src, activations))
					}
				},
				func(passes int) { p.theirs(dst, src, v, passes) },
			}}.run(b)
		})
		if testing.Short() {
			continue
		}
		row := sizeOf(p.d, dotCols)
		b.Run(fmt.Sprintf("%v/256MiB/%s", p.d, p.name), func(b *testing.B) {
			rows := 256 << 20 / row
			c := matrixContest(b, p, rows)
			c.unit, c.units = "GB/s", float64(rows*row)/1e9
			c.run(b)
		})
		b.Run(fmt.Sprintf("%v/14336rows/%s", p.d, p.name), func(b *testing.B) {
			c := matrixContest(b, p, 14336)
			c.unit, c.units, c.sides = "rows/s", 14336, c.sides[:2]
			c.run(b)
		})
	}
}

// matrixContest returns the contest of MatVec of package loader, ggml's function and plain reading, on all cores, with a
// matrix of so many rows. All have the same memory until b ends.
func matrixContest(b *testing.B, p dotPeer, rows int) contest {
	dst := make([]float32, rows)
	v := p.vector(rand.New(rand.NewPCG(1, uint64(p.d))), dotCols)
	stored := p.rows(rows, dotCols)
	var file bytes.Buffer
	file.Grow(len(stored) + 1<<20)
	aw, err := apr2.NewWriter(&file, slices.Values([]layout.Tensor{{Name: []byte("w"), DType: p.d, Shape: []int{rows, dotCols}}}), &apr2.Options{
		Metadata: layout.Metadata{{Key: "apr_version", Value: "2.0.0"}, {Key: "model_type", Value: "bench"}, {Key: "architecture", Value: layout.Metadata{}}},
	})
	check(err)
	check(aw.WriteTensor(stored))
	check(aw.Close())
	m, err := loader.OpenBytes(file.Bytes(), nil)
	check(err)
	b.Cleanup(func() { m.Close() })
	t, err := m.Tensor("w")
	check(err)
	src, err := t.Bytes()
	check(err)
	size := len(src) / rows
	return contest{sides: []func(passes int){
		func(passes int) {
			for range passes {
				check(t.MatVec(context.Background(), dst, v.x))
			}
		},
		func(passes int) {
			onEachCore(rows, func(lo, hi int) { p.theirs(dst[lo:hi], src[lo*size:hi*size], v, passes) })
		},
		func(passes int) {
			onEachCore(rows, func(lo, hi int) { repeatReading(src[lo*size:hi*size], passes) })
		},
	}}
}

// A contest has two or three sides: ours, the peer's and plain reading. Each repeats its work the given number of passes.
// A pass makes units units.
type contest struct {
	unit  string
	units float64
	sides []func(passes int)
}

// run gives each side a turn of a millisecond or one pass in every iteration, and reports the best speeds and their ratio.
func (c contest) run(b *testing.B) {
	describe()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	passes, best := make([]int, len(c.sides)), make([]float64, len(c.sides))
	for i, f := range c.sides {
		passes[i] = passesFor(time.Millisecond, f)
	}
	for b.Loop() {
		for i, f := range c.sides {
			best[i] = max(best[i], c.units*float64(passes[i])/timed(f, passes[i]).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // a round is no operation
	b.ReportMetric(best[0], "our-"+c.unit)
	b.ReportMetric(best[1], "peer-"+c.unit)
	b.ReportMetric(best[0]/best[1], "ratio")
	if len(best) > 2 {
		b.ReportMetric(best[2], "read-"+c.unit)
		b.ReportMetric(best[0]/best[2], "ratio-to-read")
	}
}

// passesFor returns how often f must repeat to last for d. It warms up what it runs. It tries
// thrice, so that an interruption does not pass for work.
func passesFor(d time.Duration, f func(passes int)) int {
	for passes := 1; ; passes *= 2 {
		if min(timed(f, passes), timed(f, passes), timed(f, passes)) >= d {
			return passes
		}
	}
}

// timed returns the time that f takes.
func timed(f func(passes int), passes int) time.Duration {
	start := time.Now()
	f(passes)
	return time.Since(start)
}

// describe prints what runs: without it a figure means nothing.
var describe = sync.OnceFunc(func() {
	flags := "unknown (-trimpath leaves them out)"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "CGO_CFLAGS" {
				flags = s.Value
			}
		}
	}
	fmt.Printf("go: %s, GOMAXPROCS %d, GODEBUG=%q\n", runtime.Version(), runtime.GOMAXPROCS(0), os.Getenv("GODEBUG"))
	fmt.Printf("dequant: %s\n", strings.Join(dequant.Implementations(), ", "))
	fmt.Printf("ggml: compiler %s, CGO_CFLAGS %s\n", compiler(), flags)
	if !strings.Contains(flags, "-O3 -march=native") {
		fmt.Println("note: not known to be fair; ggml wants CGO_CFLAGS=\"-O3 -march=native\"")
	}
})

// repeatAfter is how many random elements are made. Larger buffers repeat them, which makes no
// difference to expansions.
const repeatAfter = 1 << 18

// buffers returns n plain weights as floats and as blocks, so that either can be the source.
func buffers(d layout.DType, n int) (floats []float32, blocks []byte) {
	rng := rand.New(rand.NewPCG(21, uint64(d)))
	floats, blocks = make([]float32, n), make([]byte, sizeOf(d, n))
	some := min(n, repeatAfter)
	fillPlain(rng, d, blocks[:sizeOf(d, some)])
	tile(blocks, sizeOf(d, some))
	check(dequant.Expand(d, floats, blocks))
	return floats, blocks
}

// onAllCores returns a peer that divides p's work evenly among as many goroutines as there are cores.
func onAllCores(p peer) peer {
	return peer{p.d, p.name, func(floats []float32, blocks []byte, passes int) {
		onEachCore(len(floats)/maxBlock, func(lo, hi int) {
			lo, hi = lo*maxBlock, hi*maxBlock
			p.run(floats[lo:hi], blocks[sizeOf(p.d, lo):sizeOf(p.d, hi)], passes)
		})
	}}
}

// onEachCore calls f on every core, with an equal share of the numbers from 0 to rows-1.
func onEachCore(rows int, f func(lo, hi int)) {
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for i := range cores {
		lo, hi := rows*i/cores, rows*(i+1)/cores
		wg.Go(func() { f(lo, hi) })
	}
	wg.Wait()
}

// maxBlock is a multiple of every type's block.
const maxBlock = 256
