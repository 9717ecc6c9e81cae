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

// word returns the 64 bits of the set that include the bit of chunk i. Chunk i has bit i%64, counted from the lowest. A bit is 1 if the set
// has its chunk.
func (c *chunkSet) word(i int64) uint64 {
	if p := c.pages[i/pageChunks].Load(); p != nil {
		return p[(i%pageChunks)/64].Load()
	}
	return 0
}

// has reports whether chunk i is in the set.
func (c *chunkSet) has(i int64) bool { return (c.word(i)>>(i%64))&1 != 0 }

// add adds chunk i to the set. It is safe for concurrent use.
func (c *chunkSet) add(i int64) {
	page := &c.pages[i/pageChunks]
	if page.Load() == nil {
		page.CompareAndSwap(nil, new(setPage)) // only one goroutine makes the page
	}
	page.Load()[(i%pageChunks)/64].Or(1 << (i % 64))
}

// count returns the number of chunks in the set. It counts bits and keeps no counter: a chunk that missing no longer returns is always
// counted.
func (c *chunkSet) count() (n int64) {
	for i := range c.pages {
		if page := c.pages[i].Load(); page != nil {
			for w := range page {
				n += int64(bits.OnesCount64(page[w].Load()))
			}
		}
	}
	return n
}

// missing returns the first range [from, to) of chunks in [lo, hi) that the set lacks. The range has at most limit chunks. If the set has
// all chunks of [lo, hi), from and to are hi.
func (c *chunkSet) missing(lo, hi, limit int64) (from, to int64) {
	from = lo
	for from < hi && c.has(from) {
		if from%64 == 0 && c.word(from) == ^uint64(0) { // the set has 64 chunks from here on: skip them
			from += 64
			continue
		}
		from++
	}
	from = min(from, hi)
	for to = from; to < hi && to-from < limit && !c.has(to); to++ {
	}
	return from, to
}
