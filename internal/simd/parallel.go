package simd

import (
	"github.com/tensormap/tensormap/internal/parallel"
)

// ParallelMin is the smallest buffer that goroutines share, and ParallelGrain the range that one takes at a time, both
// in elements. On two cores 1<<17 elements gain a fifth, and 1<<16 would lose a little (dequant's BenchmarkParallel).
// The grain is a multiple of every block.
const (
	ParallelMin   = 1 << 17
	ParallelGrain = 1 << 15
)

// InParallel calls f for consecutive ranges of at most grain of n elements, and returns the first range's error. As
// many goroutines as cores says take part, if n is large. A number of 0 means all of GOMAXPROCS.
func InParallel(cores, n, grain int, f func(lo, hi int) error) error {
	if cores == 0 {
		cores = parallel.Cores()
	}
	grains := (n + grain - 1) / grain
	workers := min(cores, grains)
	if n < ParallelMin || workers < 2 {
		return f(0, n)
	}
	return parallel.ForEach(workers, parallel.Range(uint64(grains)), func(i uint64) error {
		lo := int(i) * grain
		return f(lo, min(lo+grain, n))
	})
}
