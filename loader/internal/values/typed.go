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
	"github.com/tensormap/tensormap/mmapio"
)

// Typed is the values of elements of one dtype.
type Typed struct {
	In content.Content
	N  uint64 // elements
	// Find finds out how elements become values, which a head or metadata may tell. It is asked until it
	// has answered, unless Codec says so already.
	Find  func(ctx context.Context, env content.Env) (dequant.Codec, error)
	Codec *dequant.Codec

	found atomic.Pointer[dequant.Codec]
}

func (t *Typed) Err() error              { return nil }
func (t *Typed) Elements() uint64        { return t.N }
func (t *Typed) Source() content.Content { return t.In }

// codec returns t.Codec or, if that is nil, what Find returns. It calls Find until that succeeds once.
func (t *Typed) codec(ctx context.Context, env content.Env) (*dequant.Codec, error) {
	if t.Codec != nil {
		return t.Codec, nil
	}
	if c := t.found.Load(); c != nil {
		return c, nil
	}
	c, err := t.Find(ctx, env)
	if err != nil {
		return nil, err
	}
	t.found.Store(&c)
	return &c, nil
}

func (t *Typed) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	c, err := t.codec(ctx, env)
	if err != nil {
		return err
	}
	return Expand(ctx, env, *c, t.In, dst, first)
}

// Blocks returns the elements as they are stored if package dot multiplies their dtype: with a scale only int8 whose
// zero point is 0. Otherwise ok is false.
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
	b = Blocks{Content: t.In, DType: d, From: from, Scale: 1}
	if scaled {
		b.Scale = q.Scale
	}
	return b, true, nil
}

// Expand fills dst with the values of the elements of in that c decodes, from element first on. Bytes in memory
// expand in place. Others are read a step at a time, on all cores if in is Parallel.
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
	cost := in.Cost()
	if !cost.Parallel {
		return expandSerial(ctx, env, c, in, dst, first, dequant.AllCores)
	}
	if step := stepFor(c, cost); uint64(len(dst)) > step && parallel.Cores() > 1 {
		return expandParallel(ctx, env, c, in, dst, first, step)
	}
	return expandSerial(ctx, env, c, in, dst, first, 1)
}

// stepFor returns how many elements to read at a time, a multiple of the dtype's block: Cost.Piece bytes or, of
// elements that are decompressed, 8 to 24 blocks of LZ4. Blocks of LZ4 and of the dtype end together after such a
// step, if the size of the dtype's block allows that.
func stepFor(c dequant.Codec, cost content.Cost) uint64 {
	d, _, _ := c.Elements()
	block, elems := uint64(d.BlockBytes()), uint64(d.BlockElems())
	if !cost.Parallel {
		return max(1, cost.Piece/block) * elems
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

// expandSerial fills dst with the values from element first on. It reads the elements of in a step at a time, in this
// goroutine. cores is how many cores expand each step; dequant.AllCores means all.
func expandSerial(ctx context.Context, env content.Env, c dequant.Codec, in content.Content, dst []float32, first uint64, cores int) error {
	mem := takeScratch()
	defer mem.give()
	step := stepFor(c, in.Cost())
	for len(dst) > 0 {
		n := min(uint64(len(dst)), step-first%step) // steps after the first begin at a block
		off, size := c.Span(first, n)
		mem.codes = grown(mem.codes, size)
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

// expandParallel fills dst as expandSerial does, on all cores. Each reads and expands a step at a time; steps begin at
// multiples of step, where blocks do.
func expandParallel(ctx context.Context, env content.Env, c dequant.Codec, in content.Content, dst []float32, first, step uint64) error {
	base, end := first/step*step, first+uint64(len(dst))
	n := (end - base + step - 1) / step
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(parts iter.Seq[uint64]) error {
		for i := range parts {
			from, upto := max(first, base+i*step), min(end, base+(i+1)*step)
			if err := expandSerial(ctx, env, c, in, dst[from-first:upto-first], from, 1); err != nil {
				return err
			}
		}
		return nil
	})
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

// give puts s back for the next caller of takeScratch, unless its memory exceeds maxScratch bytes.
func (s *Scratch) give() {
	if cap(s.codes)+4*cap(s.Floats) <= maxScratch {
		scratches.Put(s)
	}
}

// grown returns s cut to length n or, if its capacity is less, new aligned memory. The contents are undefined.
func grown[T mmapio.Number](s []T, n uint64) []T {
	if n <= uint64(cap(s)) {
		return s[:n]
	}
	return mmapio.Aligned[T](int(n))
}
