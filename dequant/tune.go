package dequant

// Sizes at which another way of working pays. They are counted in elements of output.
const (
	// streamMin is where non-temporal stores begin: the output no longer fits the caches, and
	// whoever reads it next would find it evicted anyway.
	streamMin = 4 << 20
	// parallelMin is the smallest output for which goroutines are started, and
	// parallelGrain what one of them takes at a time: long enough to hide the cost of
	// handing out work. The grain is a multiple of every block.
	parallelMin   = 1 << 18
	parallelGrain = 1 << 16
)

func isLarge(elems int) bool { return elems >= streamMin }
