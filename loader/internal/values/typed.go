package values

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// Typed is the values of elements of one dtype.
type Typed struct {
	Content content.Content
	Count   uint64 // elements
	// FindCodec finds out how elements become values, which a head or metadata may tell. It is asked until it
	// has answered, unless Codec says so already.
	FindCodec func(ctx context.Context, env content.Env) (dequant.Codec, error)
	Codec     *dequant.Codec

	found atomic.Pointer[dequant.Codec]
}

func (t *Typed) Err() error              { return nil }
func (t *Typed) Elements() uint64        { return t.Count }
func (t *Typed) Source() content.Content { return t.Content }

// codec returns t.Codec or, if that is nil, what FindCodec returns. It calls FindCodec until that succeeds once. It fails if that does.
func (t *Typed) codec(ctx context.Context, env content.Env) (*dequant.Codec, error) {
	if t.Codec != nil {
		return t.Codec, nil
	}
	if c := t.found.Load(); c != nil {
		return c, nil
	}
	c, err := t.FindCodec(ctx, env)
	if err != nil {
		return nil, err
	}
	t.found.Store(&c)
	return &c, nil
}

// Read fills dst with the values from element first on. The error is that of FindCodec or of reading.
func (t *Typed) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	c, err := t.codec(ctx, env)
	if err != nil {
		return err
	}
	return Expand(ctx, env, *c, t.Content, dst, first)
}

// Blocks returns the elements as they are stored if package dot multiplies their dtype: with a scale only int8 whose
// zero point is 0. Otherwise ok is false. It fails if the type cannot be read.
func (t *Typed) Blocks(ctx context.Context, env content.Env) (b Blocks, ok bool, err error) {
	c, err := t.codec(ctx, env)
	if err != nil {
		return b, false, err
	}
	d, q, scaled := c.Elements()
	if dot.Type(d) == 0 || scaled && (d != layout.I8 || q.Zero != 0) {
		return b, false, nil
	}
	from, _ := c.Span(0, 0) // behind the head, if there is one
	b = Blocks{Content: t.Content, DType: d, From: from, Scale: 1}
	if scaled {
		b.Scale = q.Scale
	}
	return b, true, nil
}

// Expand decodes len(dst) elements of in to dst, from element first on. c says how their bytes become float32s. Bytes in
// memory are decoded where they are. Others are read into scratch memory, valuesPerRead at a time: on all cores if in
// is Parallel and there are several steps. It fails as reading does.
func Expand(ctx context.Context, env content.Env, c dequant.Codec, in content.Content, dst []float32, first uint64) error {
	if len(dst) == 0 {
		return nil
	}
	off, size := c.Span(first, uint64(len(dst)))
	b, err := in.View(ctx, env, off, size)
	if err != nil {
		return err
	}
	if b != nil {
		return c.Expand(dst, b, first, dequant.AllCores)
	}
	cost, cores := in.Cost(), dequant.AllCores
	step := valuesPerRead(c, cost)
	if cost.Parallel {
		if cores = 1; uint64(len(dst)) > step && parallel.Cores() > 1 {
			return expandParallel(ctx, env, c, in, dst, first, step)
		}
	}
	mem := takeScratch()
	defer mem.release()
	for len(dst) > 0 {
		n := min(uint64(len(dst)), step-first%step) // steps after the first begin at a block
		off, size := c.Span(first, n)
		mem.codes = content.Grown(mem.codes, size)
		if err := in.ReadAt(ctx, env, mem.codes, off); err != nil {
			return err
		}
		if err := c.Expand(dst[:n], mem.codes, first, cores); err != nil {
			return err
		}
		dst, first = dst[n:], first+n
	}
	return nil
}

// expandParallel fills dst with values on all cores. Each core reads and expands a step at a time; steps begin at
// multiples of step, where blocks do. It fails if reading does.
func expandParallel(ctx context.Context, env content.Env, c dequant.Codec, in content.Content, dst []float32, first, step uint64) error {
	base, end := first/step*step, first+uint64(len(dst))
	n := (end - base + step - 1) / step
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(parts iter.Seq[uint64]) error {
		for i := range parts {
			from, upto := max(first, base+i*step), min(end, base+(i+1)*step)
			if err := Expand(ctx, env, c, in, dst[from-first:upto-first], from); err != nil {
				return err
			}
		}
		return nil
	})
}

// valuesPerRead returns how many elements to read at a time, a multiple of the dtype's block: Cost.Piece bytes or, of
// elements that are decompressed, 8 to 24 blocks of LZ4. Blocks of LZ4 and of the dtype end together after such a
// step, if the size of the dtype's block allows that.
func valuesPerRead(c dequant.Codec, cost content.Cost) uint64 {
	d, _, _ := c.Elements()
	block, elems := uint64(d.BlockBytes()), uint64(d.BlockElems())
	if !cost.Parallel {
		return max(1, cost.ReadBytes/block) * elems
	}
	const minBlocks, maxBlocks = 8, 24 // of LZ4
	// A block of LZ4 yields a power of 2 bytes, so the odd factor of block decides where both end together.
	odd := block
	for odd%2 == 0 {
		odd /= 2
	}
	blocks := uint64(maxBlocks)
	if odd <= maxBlocks {
		blocks = (minBlocks + odd - 1) / odd * odd
	}
	return blocks * lz4block.Size / block * elems
}

// Scratch is memory of one goroutine for a run of elements.
type Scratch struct {
	codes  []byte
	Floats []float32
	Reader any // what Scales.Read has made, for its next call
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// maxScratch bounds the memory, in bytes, that stays for the next run.
const maxScratch = 2 << 20

func takeScratch() *Scratch { return scratches.Get().(*Scratch) }

// release puts s back for the next caller of takeScratch, unless its memory exceeds maxScratch bytes.
func (s *Scratch) release() {
	if cap(s.codes)+4*cap(s.Floats) <= maxScratch {
		scratches.Put(s)
	}
}
