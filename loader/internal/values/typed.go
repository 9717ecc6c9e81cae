package values

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// Typed is the values of elements of one dtype.
type Typed struct {
	Content content.Content
	Count   uint64 // elements
	// FindCodec finds out how elements become values, which a head or metadata may tell. It is called until it
	// succeeds once, unless Codec is set.
	FindCodec func(ctx context.Context, env content.Env) (dequant.Codec, error)
	Codec     *dequant.Codec

	found atomic.Pointer[dequant.Codec]
}

// Err returns nil: there are values.
func (t *Typed) Err() error { return nil }

// Elements returns the number of values.
func (t *Typed) Elements() uint64 { return t.Count }

// Source returns the content of the elements.
func (t *Typed) Source() content.Content { return t.Content }

// codec returns t.Codec or, if that is nil, the result of FindCodec, which it calls until that succeeds once. It fails if
// FindCodec does.
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

// Blocks returns the elements as they are stored if package dot multiplies their dtype. If one scale serves the whole tensor, package dot
// multiplies only int8s with a zero point of 0. Otherwise ok is false. It fails if FindCodec does.
func (t *Typed) Blocks(ctx context.Context, env content.Env) (b Blocks, ok bool, err error) {
	c, err := t.codec(ctx, env)
	if err != nil {
		return b, false, err
	}
	d, q, hasScale := c.Elements()
	if dot.Type(d) == 0 || hasScale && (d != layout.I8 || q.Zero != 0) {
		return b, false, nil
	}
	from, _ := c.ByteRange(0, 0) // where element 0 begins: behind the head, if there is one
	b = Blocks{Content: t.Content, DType: d, From: from, Scale: 1}
	if hasScale {
		b.Scale = q.Scale
	}
	return b, true, nil
}

// Read fills dst with the values from element first on. If View of the content has their bytes, it decodes them where they are, on all
// cores. Otherwise it reads as many whole blocks at a time as Cost says, at least one, into scratch memory. It decodes them on all cores.
// It fails if t.codec, which may call FindCodec, or reading does.
func (t *Typed) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	c, err := t.codec(ctx, env)
	if err != nil || len(dst) == 0 {
		return err
	}
	off, size := c.ByteRange(first, uint64(len(dst)))
	b, err := t.Content.View(ctx, env, off, size)
	if err != nil {
		return err
	}
	if b != nil {
		return c.Expand(dst, b, first, dequant.AllCores)
	}
	d, _, _ := c.Elements() // a scale does not matter
	step := max(1, t.Content.Cost().ReadBytes/uint64(d.BlockBytes())) * uint64(d.BlockElems())
	mem := takeScratch()
	defer mem.release()
	for len(dst) > 0 {
		n := min(uint64(len(dst)), step-first%step) // the next read begins at a multiple of step
		off, size := c.ByteRange(first, n)
		mem.codes = content.Grown(mem.codes, size)
		if err := t.Content.ReadAt(ctx, env, mem.codes, off); err != nil {
			return err
		}
		if err := c.Expand(dst[:n], mem.codes, first, dequant.AllCores); err != nil {
			return err
		}
		dst, first = dst[n:], first+n
	}
	return nil
}

// Scratch is memory of one goroutine for a run of elements.
type Scratch struct {
	codes  []byte
	Floats []float32
	Reader any // what Scales.Read has made, for its next call
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// maxScratch bounds the memory, in bytes, that stays for the next run.
const maxScratch = content.LZ4Read

// takeScratch returns memory from the pool. The caller returns it by release.
func takeScratch() *Scratch { return scratches.Get().(*Scratch) }

// release puts s back for the next caller of takeScratch, or leaves it to the garbage collector if its memory exceeds maxScratch bytes.
func (s *Scratch) release() {
	if cap(s.codes)+4*cap(s.Floats) <= maxScratch {
		scratches.Put(s)
	}
}
