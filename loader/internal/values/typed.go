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

func (t *Typed) Blocks(ctx context.Context, env content.Env) (b Blocks, ok bool, err error) {
	c, err := t.codec(ctx, env)
	if err != nil {
		return b, false, err
	}
	d, q, scaled := c.Elements()
	if dot.Type(d) == 0 || scaled && (d != layout.I8 || q.Zero != 0) {
		return b, false, nil
	}
	from, _ := c.Span(0, 0)
	b = Blocks{Content: t.In, DType: d, From: from, Scale: 1}
	if scaled {
		b.Scale = q.Scale
	}
	return b, true, nil
}

// Expand fills dst with the values of elements of in, from element first on. All stored elements of one dtype become values
// here.
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
	if step := step(c, cost); uint64(len(dst)) > step && parallel.Cores() > 1 {
		return expandParallel(ctx, env, c, in, dst, first, step)
	}
	return expandSerial(ctx, env, c, in, dst, first, 1)
}

// step returns how many elements to read at a time: a multiple of a block. Blocks of LZ4 and of the dtype end together after
// a step of elements that are decompressed, unless that would be many bytes.
func step(c dequant.Codec, cost content.Cost) uint64 {
	d, _, _ := c.Elements()
	block, elems := uint64(d.BlockBytes()), uint64(d.BlockElems())
	if !cost.Parallel {
		return max(1, cost.Piece/block) * elems
	}
	const least, most = 8, 24 // blocks of LZ4
	odd := block
	for odd%2 == 0 {
		odd /= 2
	}
	blocks := uint64(most)
	if odd <= most {
		blocks = (least + odd - 1) / odd * odd
	}
	return blocks * lz4block.Size / block * elems
}

// expandSerial expands what is read a step at a time.
func expandSerial(ctx context.Context, env content.Env, c dequant.Codec, in content.Content, dst []float32, first uint64, cores int) error {
	mem := takeScratch()
	defer mem.give()
	step := step(c, in.Cost())
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

// expandParallel reads and expands on all cores, a step at a time.
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

func (s *Scratch) give() {
	if cap(s.codes)+4*cap(s.Floats) <= maxScratch {
		scratches.Put(s)
	}
}

// grown returns aligned memory of length n, which is s if that is large enough.
func grown[T mmapio.Number](s []T, n uint64) []T {
	if n <= uint64(cap(s)) {
		return s[:n]
	}
	return mmapio.Aligned[T](int(n))
}
