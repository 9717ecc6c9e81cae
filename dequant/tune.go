package dequant

// Sizes at which another way of working pays.
const (
	// streamMin is where non-temporal stores begin, in bytes of output and source together: the
	// caches no longer hold them, and whoever reads the output next would find it evicted
	// anyway. On a Zen 4 with 32 MiB of L3 the two ways meet between 22 and 30 MiB: early for
	// plain numbers, later for block types, whose sources are small (BenchmarkStream).
	streamMin = 28 << 20
	// parallelMin is the smallest output for which goroutines are started, and parallelGrain what
	// one of them takes at a time, both in elements. On two cores 1<<17 elements gain a fifth,
	// and 1<<16 would lose a little (BenchmarkParallel). The grain is a multiple of every block.
	parallelMin   = 1 << 17
	parallelGrain = 1 << 15
)

func isLarge(elems, size int) bool { return 4*int64(elems)+int64(size) >= streamMin }
