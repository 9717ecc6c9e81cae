package sparse

import (
	"math/bits"
	"sync/atomic"
)

// chunkSet is a set of chunk numbers below end. It only grows. Its memory is for the numbers that it has, not for end: that comes from
// a server.
type chunkSet struct {
	end   int64
	pages []atomic.Pointer[setPage]
}

// setPage is a part of a set: 2 GiB of a file.
type setPage [pageChunks / 64]atomic.Uint64

const pageChunks = 1 << 15

// newChunks returns an empty set of chunk numbers below n.
func newChunks(n int64) chunkSet {
	return chunkSet{n, make([]atomic.Pointer[setPage], (n+pageChunks-1)/pageChunks)}
}

// word returns a bit for each of 64 chunks, those from i rounded down to a multiple of 64 on: 1 if the set has the chunk. The lowest
// bit is that of the first chunk.
func (c *chunkSet) word(i int64) uint64 {
	if p := c.pages[i/pageChunks].Load(); p != nil {
		return p[i%pageChunks/64].Load()
	}
	return 0
}

// has reports whether chunk i is in the set.
func (c *chunkSet) has(i int64) bool { return c.word(i)>>(i%64)&1 != 0 }

// add adds chunk i to the set. Goroutines may add chunks of one page at once: CompareAndSwap makes the page once.
func (c *chunkSet) add(i int64) {
	at := &c.pages[i/pageChunks]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(setPage))
	}
	at.Load()[i%pageChunks/64].Or(1 << (i % 64))
}

// count returns the number of chunks in the set.
func (c *chunkSet) count() (n int64) {
	for i := int64(0); i < c.end; i += 64 {
		if c.pages[i/pageChunks].Load() == nil { // a whole page is empty
			i += pageChunks - 64
			continue
		}
		n += int64(bits.OnesCount64(c.word(i)))
	}
	return n
}

// missing returns the first range [from, to) of chunks in [lo, hi) that are not in the set, of at most limit chunks. If
// the set has all of [lo, hi), it returns hi, hi.
func (c *chunkSet) missing(lo, hi, limit int64) (from, to int64) {
	for lo < hi && c.has(lo) {
		if lo%64 == 0 && c.word(lo) == ^uint64(0) {
			lo += 64
			continue
		}
		lo++
	}
	from = min(lo, hi)
	for to = from; to < hi && to-from < limit && !c.has(to); to++ {
	}
	return from, to
}
