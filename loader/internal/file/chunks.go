package file

import (
	"context"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// recentBytes bounds the memory of chunks that were fetched for a part of them. They stay, so that reading their other parts fetches nothing.
const recentBytes = 32 << 20

// chunks reads a file from a source by whole chunks. It hashes a chunk each time that the chunk comes from the source.
type chunks struct {
	*digests
	fetch  func(ctx context.Context, p []byte, off uint64) error
	recent cache.Cache // verified chunks; Key.Tensor is the number of the chunk
}

// newChunks returns a reader of the chunks that d has digests of. fetch fills p with the file's bytes from off on, unverified. The reader
// keeps recent chunks in memory: of recentBytes bytes, or one chunk if that is larger.
func newChunks(d *digests, fetch func(ctx context.Context, p []byte, off uint64) error) *chunks {
	c := &chunks{digests: d, fetch: fetch}
	largest := min(d.chunkBytes(), maxChunk) // the budget must hold one chunk: otherwise each range in a chunk would fetch the whole chunk
	c.recent.Init(cache.Options{Budget: int64(max(recentBytes, largest)), CheckSource: func(cache.Key) error { return nil }})
	return c
}

// read fills p with the bytes of the file from off on. It copies bytes before the first chunk, at c.Off, from c.Head, which is verified
// and has c.Off bytes. It checks chunks by their digests. It fetches bytes after the last chunk, from c.End on, and does not verify them.
// It fails if fetching does, for a wrong chunk, or for one too large to be fetched. After an error p is all zeros.
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

// readChunks reads verified bytes from off on into p, and returns how many bytes it has read. off lies in a chunk. If that chunk begins at
// off and fits into p, readChunks fetches it into p, with all later chunks that fit too. Otherwise it copies to p what p needs of that
// one chunk. It fails if fetching does, for a wrong chunk, or for a chunk too large to be fetched for a part.
func (c *chunks) readChunks(ctx context.Context, p []byte, off uint64) (n int, err error) {
	i := (off - c.Off) / c.Chunk
	begin, _ := c.ChunkRange(i)
	whole := uint64(len(p)) / c.Chunk
	if off+uint64(len(p)) >= c.End { // the last chunk may be shorter
		whole = c.Count() - i
	}
	if off == begin && whole > 0 {
		last, size := c.ChunkRange(i + whole - 1)
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
	for k := range n {
		if err := c.knownError(i + k); err != nil {
			return err
		}
	}
	begin, _ := c.ChunkRange(i)
	if err := c.fetch(ctx, p, begin); err != nil {
		return err
	}
	return parallel.ForEach(parallel.Workers(n), parallel.Range(n), func(k uint64) error {
		off, size := c.ChunkRange(i + k)
		return c.compareBytes(i+k, p[off-begin:][:size])
	})
}

// chunk returns the verified bytes of chunk i, from memory or else from the source. Of several calls for the same chunk one fetches, and
// the others wait for it. Callers share the bytes, and do not write to them. It fails if fetching does, for a wrong
// chunk, or for one too large to be fetched.
func (c *chunks) chunk(ctx context.Context, i uint64) ([]byte, error) {
	key := cache.Key{Tensor: uint32(i)} // 1<<32 chunks would have 128 GiB of digests
	b, err := c.recent.Get(ctx, key, nil, func(ctx context.Context, _ *cache.Pins) (b cache.Buffer, err error) {
		if err = c.checkBeforeFetch(i); err != nil {
			return b, err
		}
		// The source may claim bytes that do not exist, so that memory is taken as they arrive.
		sizeIsSure := func() (bool, error) { return false, nil }
		off, n := c.ChunkRange(i)
		if b.Bytes, err = mmapio.Gather(n, sizeIsSure, func(dst []byte, at uint64) error { return c.fetch(ctx, dst, off+at) }); err != nil {
			return b, err
		}
		return b, c.compareBytes(i, b.Bytes)
	})
	return b.Bytes, err
}
