package sparse

import (
	"math/bits"
	"sync/atomic"
)

// chunks is a set of chunk numbers below n. It only grows.
type chunks struct {
	n     int64
	words []atomic.Uint64
}

func newChunks(n int64) chunks { return chunks{n, make([]atomic.Uint64, (n+63)/64)} }

func (c *chunks) has(i int64) bool { return c.words[i/64].Load()>>(i%64)&1 != 0 }

func (c *chunks) add(i int64) { c.words[i/64].Or(1 << (i % 64)) }

func (c *chunks) count() (n int64) {
	for i := range c.words {
		n += int64(bits.OnesCount64(c.words[i].Load()))
	}
	return n
}

// missing returns the first run of chunks in [lo, hi) that are not in the set, at most so many. It
// is empty, at hi, if there is none.
func (c *chunks) missing(lo, hi, most int64) (from, to int64) {
	for lo < hi && c.has(lo) {
		if lo%64 == 0 && c.words[lo/64].Load() == ^uint64(0) {
			lo += 64
			continue
		}
		lo++
	}
	from = min(lo, hi)
	for to = from; to < hi && to-from < most && !c.has(to); to++ {
	}
	return from, to
}
