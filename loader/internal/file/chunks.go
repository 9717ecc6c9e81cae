package file

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/flight"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/mmapio"
)

// recentBytes is how much of what was fetched for ranges in it stays in memory: neighbours need not be fetched again.
const recentBytes = 32 << 20

// chunks reads what comes from a source by whole chunks, and hashes it each time it comes.
type chunks struct {
	*digests
	fetch func(ctx context.Context, p []byte, off uint64) error

	flights flight.Group[uint64, []byte]
	mu      sync.Mutex
	recent  map[uint64][]byte
	order   []uint64 // the keys of recent, the longest unused first
	bytes   uint64   // bytes of all chunks in recent
}

// heapBytes returns how many bytes the chunks in memory take.
func (c *chunks) heapBytes() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// read fills p with the bytes of the file from off on. It copies bytes before the first chunk, at c.Off, from c.Head, which is verified
// and has c.Off bytes. It checks chunks by their digests. It fetches bytes after the last chunk, from c.End on, and does not verify them.
// It fails if fetching does, for a wrong chunk, or for one that checkSize finds too large. After an error p is all zeros.
func (c *chunks) read(ctx context.Context, p []byte, off uint64) (err error) {
	for rest := p; len(rest) > 0 && err == nil; {
		n := 0
		switch {
		case off < c.Off:
			n = copy(rest, c.Head[off:])
		case off >= c.End:
			n, err = len(rest), c.fetch(ctx, rest, off)
		default:
			n, err = c.readChunks(ctx, rest, off)
		}
		rest, off = rest[n:], off+uint64(n)
	}
	if err != nil {
		clear(p)
	}
	return err
}

// readChunks reads verified bytes from off on into p, and returns how many it has read. off lies in a chunk. If off begins a chunk that p
// can hold, it fetches that chunk, and all behind it that p can hold too. Otherwise it copies what p needs of the chunk with off. It fails
// if fetching does, for a wrong chunk, or for one that checkSize finds too large.
func (c *chunks) readChunks(ctx context.Context, p []byte, off uint64) (n int, err error) {
	i := (off - c.Off) / c.Chunk
	begin, _ := c.Span(i)
	whole := uint64(len(p)) / c.Chunk
	if off+uint64(len(p)) >= c.End { // the last chunk may be shorter
		whole = c.count - i
	}
	if off == begin && whole > 0 {
		last, size := c.Span(i + whole - 1)
		n = int(last + size - off)
		return n, c.fetchInto(ctx, p[:n], i, whole)
	}
	b, err := c.chunk(ctx, i)
	if err != nil {
		return 0, err
	}
	return copy(p, b[off-begin:]), nil
}

// fetchInto fetches n chunks from chunk i on into p, and compares their digests. p has exactly the length of the chunks. If an earlier
// call has found one of the chunks wrong, it returns that error and fetches nothing. It fails if fetching does, or for a wrong chunk.
func (c *chunks) fetchInto(ctx context.Context, p []byte, i, n uint64) error {
	for k := i; k < i+n; k++ {
		if err := c.knownError(k); err != nil {
			return err
		}
	}
	begin, _ := c.Span(i)
	if err := c.fetch(ctx, p, begin); err != nil {
		return err
	}
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(items iter.Seq[uint64]) error {
		for k := range items {
			off, size := c.Span(i + k)
			if err := c.compareBytes(i+k, p[off-begin:][:size]); err != nil {
				return err
			}
		}
		return nil
	})
}

// chunk returns the verified bytes of chunk i, from memory or else from the source. Of several calls for the same chunk one fetches, and
// the others wait for it. Callers share the bytes, and do not write to them. It fails if fetching does, for a wrong chunk, or if checkSize
// finds the chunk too large.
func (c *chunks) chunk(ctx context.Context, i uint64) ([]byte, error) {
	if b := c.recentChunk(i); b != nil {
		return b, nil
	}
	return c.flights.Do(ctx, i, func(ctx context.Context) ([]byte, error) {
		if b := c.recentChunk(i); b != nil { // another call has just fetched it
			return b, nil
		}
		off, n := c.Span(i)
		if err := c.knownError(i); err != nil {
			return nil, err
		}
		if err := c.checkSize(n); err != nil {
			return nil, err
		}
		// The source may claim bytes that do not exist, so that memory is taken as they arrive.
		sizeIsSure := func() (bool, error) { return false, nil }
		b, err := mmapio.Gather(n, sizeIsSure, func(dst []byte, at uint64) error { return c.fetch(ctx, dst, off+at) })
		if err != nil {
			return nil, err
		}
		if err := c.compareBytes(i, b); err != nil {
			return nil, err
		}
		c.remember(i, b)
		return b, nil
	})
}

// recentChunk returns the bytes of chunk i if they are in memory, else nil. It makes the chunk the most recently used one.
func (c *chunks) recentChunk(i uint64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.order, i); at >= 0 {
		c.order = append(slices.Delete(c.order, at, at+1), i)
	}
	return c.recent[i]
}

// remember keeps chunk i, whose bytes are b and which is not in c.recent, in memory. If the chunks there then take more than
// recentBytes, it forgets the least recently used ones.
func (c *chunks) remember(i uint64, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recent == nil {
		c.recent = make(map[uint64][]byte)
	}
	c.recent[i], c.order, c.bytes = b, append(c.order, i), c.bytes+uint64(len(b))
	for c.bytes > recentBytes && len(c.order) > 1 { // the new chunk stays, whatever its size
		c.bytes -= uint64(len(c.recent[c.order[0]]))
		delete(c.recent, c.order[0])
		c.order = c.order[1:]
	}
}
