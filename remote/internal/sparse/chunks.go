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

func newChunks(n int64) chunks {
	return chunks{n, make([]atomic.Pointer[page], (n+pageChunks-1)/pageChunks)}
}

// word returns the 64 chunks that i is one of.
func (c *chunks) word(i int64) uint64 {
	if p := c.pages[i/pageChunks].Load(); p != nil {
		return p[i%pageChunks/64].Load()
	}
	return 0
}

func (c *chunks) has(i int64) bool { return c.word(i)>>(i%64)&1 != 0 }

func (c *chunks) add(i int64) {
	at := &c.pages[i/pageChunks]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(page))
	}
	at.Load()[i%pageChunks/64].Or(1 << (i % 64))
}

func (c *chunks) count() (n int64) {
	for i := int64(0); i < c.n; i += 64 {
		if c.pages[i/pageChunks].Load() == nil {
			i += pageChunks - 64
			continue
		}
		n += int64(bits.OnesCount64(c.word(i)))
	}
	return n
}

// missing returns the first run of chunks in [lo, hi) that are not in the set, of at most limit chunks. It
// is empty, at hi, if there is none.
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
