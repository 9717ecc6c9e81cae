package dequant

// Sizes from which another way of working pays.
const (
	// streamMin is the size from which stores are non-temporal, in bytes of output and source
	// together. The caches no longer hold them: the next reader would find the output evicted
	// anyway. On a Zen 4 with 32 MiB of L3 the two ways meet between 22 and 30 MiB. This is early
	// for plain numbers, and later for block types, whose sources are small (BenchmarkStream).
	streamMin = 28 << 20
	// parallelMin is the smallest output that goroutines share, and parallelGrain the share that
	// one takes at a time, both in elements. On two cores 1<<17 elements gain a fifth, and 1<<16
	// would lose a little (BenchmarkParallel). The grain is a multiple of every block.
	parallelMin   = 1 << 17
	parallelGrain = 1 << 15
)

func isLarge(elems, size int) bool { return 4*int64(elems)+int64(size) >= streamMin }
