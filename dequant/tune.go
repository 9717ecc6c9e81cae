package dequant

// Sizes at which another way of working pays. They are counted in elements of output.
const (
	// streamMin is where non-temporal stores begin: the output no longer fits the caches, and
	// whoever reads it next would find it evicted anyway. With 32 MiB of L3, 20 MiB of output is where
	// the two ways meet for block types; 16-bit types would stream from 12 to 16 MiB on
	// (BenchmarkStream).
	streamMin = 5 << 20
	// parallelMin is the smallest output for which goroutines are started, and
	// parallelGrain what one of them takes at a time: long enough to hide the cost of
	// handing out work. The grain is a multiple of every block.
	parallelMin   = 1 << 18
	parallelGrain = 1 << 16
)

func isLarge(elems int) bool { return elems >= streamMin }
