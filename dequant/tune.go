package dequant

// streamMin is the size from which stores are non-temporal, in bytes of output and source
// together. The caches hold no more than that: the next reader would find the output evicted
// anyway. On a Zen 4 with 32 MiB of L3 the two ways meet between 22 and 30 MiB. This is early
// for plain numbers, and later for block types, whose sources are small (BenchmarkStream).
const streamMin = 28 << 20

// isLarge reports whether an expansion writes and reads at least streamMin bytes together. It writes elems float32s, and reads
// size bytes of the source.
func isLarge(elems, size int) bool { return 4*int64(elems)+int64(size) >= streamMin }
