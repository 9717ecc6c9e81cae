package sparse

import (
	"math/bits"
	"sync/atomic"
)

// chunks is a set of chunk numbers below n. It only grows. Its memory is for what it has, not for n, which is a server's
// word.
type chunks struct {
	n     int64
	pages []atomic.Pointer[page]
}

// page is a part of a set: 2 GiB of a file.
type page [pageChunks / 64]atomic.Uint64

const pageChunks = 1 << 15

// newChunks returns an empty set of chunk numbers below n.
func newChunks(n int64) chunks {
	return chunks{n, make([]atomic.Pointer[page], (n+pageChunks-1)/pageChunks)}
}

// word returns a bit for each of the 64 chunks that i is one of: 1 if the set has it. The lowest bit is that of the
// first.
func (c *chunks) word(i int64) uint64 {
	if p := c.pages[i/pageChunks].Load(); p != nil {
		return p[i%pageChunks/64].Load()
	}
	return 0
}

func (c *chunks) has(i int64) bool { return c.word(i)>>(i%64)&1 != 0 }

// add adds chunk i to the set. Goroutines may add chunks of one page at once: CompareAndSwap makes the page once.
func (c *chunks) add(i int64) {
	at := &c.pages[i/pageChunks]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(page))
	}
	at.Load()[i%pageChunks/64].Or(1 << (i % 64))
}

// count returns the number of chunks in the set.
func (c *chunks) count() (n int64) {
	for i := int64(0); i < c.n; i += 64 {
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
func (c *chunks) missing(lo, hi, limit int64) (from, to int64) {
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
