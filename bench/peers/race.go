package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// A match is the work of one type in one direction.
type match struct {
	one, all peer   // ours, on one core and on all
	peers    []peer // the others
}

// matches returns a match for each type that peers have, in the order in which the types first appear.
func matches(types typeSet, peers []peer, ours func(d layout.DType, cores int) peer) (ms []match) {
	for _, p := range chosen(types, peers) {
		i := slices.IndexFunc(ms, func(m match) bool { return m.one.d == p.d })
		if i < 0 {
			i = len(ms)
			ms = append(ms, match{one: ours(p.d, 1), all: ours(p.d, dequant.AllCores)})
		}
		ms[i].peers = append(ms[i].peers, p)
	}
	return ms
}

// A race measures speeds.
type race struct {
	sizes  []int         // of buffers, in elements
	rounds int           // how often each contestant is measured
	wait   time.Duration // the shortest time of a measurement
}

// print runs the matches and writes a row for every peer, size by size.
func (r *race) print(w io.Writer, title string, ms []match) {
	cores := runtime.GOMAXPROCS(0)
	fmt.Fprintf(w, "%s: GB/s of float32, best of %d rounds\n\n", title, r.rounds)
	for _, n := range r.sizes {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		parallel := cores > 1 && n >= parallelFrom
		fmt.Fprintf(tw, "%s\tours\tpeer\tratio\t", sizeName(n))
		if parallel {
			fmt.Fprintf(tw, "ours ×%d\tpeer ×%[1]d\tratio\tours ×%[1]d/×1\t", cores)
		}
		fmt.Fprintln(tw, " peer")
		for _, m := range ms {
			r.compete(tw, m, n, parallel)
		}
		tw.Flush()
		fmt.Fprintln(w)
	}
}

// parallelFrom is well above the size from which dequant starts goroutines.
const parallelFrom = 4 << 20

// sizeName returns the size of n float32s for a heading.
func sizeName(n int) string {
	if bytes := 4 * n; bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", 4*n>>20)
}

// compete writes a row for every peer of a match at n elements.
func (r *race) compete(w io.Writer, m match, n int, parallel bool) {
	contestants := slices.Concat([]peer{m.one}, m.peers)
	if parallel {
		contestants = append(contestants, m.all)
		for _, p := range m.peers {
			contestants = append(contestants, onAllCores(p))
		}
	}
	speed := r.measure(contestants, n)
	k := 1 + len(m.peers)
	for i, p := range m.peers {
		fmt.Fprintf(w, "%v\t%.3g\t%.3g\t%.2f\t", p.d, speed[0], speed[1+i], speed[0]/speed[1+i])
		if parallel {
			all, theirs := speed[k], speed[k+1+i]
			fmt.Fprintf(w, "%.1f\t%.1f\t%.2f\t%.2f\t", all, theirs, all/theirs, all/speed[0])
		}
		fmt.Fprintln(w, " "+p.name)
	}
}

// measure returns each contestant's best speed over n elements, in GB/s of float32.
func (r *race) measure(contestants []peer, n int) []float64 {
	floats, blocks := buffers(contestants[0].d, n)
	c := make(contest, len(contestants))
	for i, p := range contestants {
		c[i] = func(passes int) { p.run(floats, blocks, passes) }
	}
	return r.speeds(c, float64(4*n)/1e9)
}

// A contest has several sides. Each repeats its work the given number of passes.
type contest []func(passes int)

// speeds returns each side's best speed in units a second. A pass makes units units.
func (r *race) speeds(c contest, units float64) []float64 {
	passes, best := make([]int, len(c)), make([]float64, len(c))
	for i, f := range c {
		passes[i] = passesFor(r.wait, f)
	}
	for range r.rounds {
		for i, f := range c {
			best[i] = max(best[i], units*float64(passes[i])/timed(f, passes[i]).Seconds())
		}
	}
	return best
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

// maxBlock is a multiple of every type's block.
const maxBlock = 256
