package values

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tensormap/tensormap/internal/narrow"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// Numbers of values that are expanded at once, before they are encoded.
const (
	stepFromMemory  = 4 << 10  // fits the smallest cache of a processor
	stepOfWorker    = 32 << 10 // fits the cache of the core on which one of several workers runs
	stepOfAllCores  = 1 << 20  // is enough work for all cores, which share each read
	stepFromNetwork = 4 << 20  // takes one request, since a request may wait for the network
)

// Encodable returns nil for the types that values can be encoded as: F32, F16 and BF16. It fails with errors.ErrUnsupported for others.
func Encodable(d layout.DType) error {
	switch d {
	case layout.F32, layout.F16, layout.BF16:
		return nil
	}
	return fmt.Errorf("%w: values as %v: F32, F16 and BF16 can be had", errors.ErrUnsupported, d)
}

// Encoded returns the values of v as the bytes of elements of type d. It fails as Encodable does.
func Encoded(v Values, d layout.DType) (content.Content, error) { return &encoded{v, d}, Encodable(d) }

type encoded struct {
	v Values
	d layout.DType
}

// Size returns the number of bytes of all elements.
func (e *encoded) Size() uint64 { return e.v.Elements() * uint64(e.d.BlockBytes()) }

// View returns n bytes of the elements of type d, from byte off on, without copying. It returns nil if v is not stored as such elements, or
// if they are not in memory. It fails if v has no values. It also fails if v.Blocks or the View of the stored elements does.
func (e *encoded) View(ctx context.Context, env content.Env, off, n uint64) ([]byte, error) {
	c, err := asStored(ctx, env, e.v, e.d)
	if c == nil {
		return nil, err
	}
	return c.View(ctx, env, off, n)
}

// ReadAt fills p with whole elements, in the caller's goroutine. The first element begins at byte off of all elements. If v is stored as
// such elements, ReadAt copies them. It fails if reading does, or once ctx ends.
func (e *encoded) ReadAt(ctx context.Context, env content.Env, p []byte, off uint64) error {
	c, err := asStored(ctx, env, e.v, e.d)
	switch {
	case err != nil:
		return err
	case c != nil:
		return content.Read(ctx, env, c, p, off)
	}
	float32s, err := asStored(ctx, env, e.v, layout.F32) // if not nil, its view is encoded without a copy
	if err != nil {
		return err
	}
	mem := takeScratch()
	defer mem.release()
	width := uint64(e.d.BlockBytes())
	for atOnce := stepFor(e.v.Source().Cost()) * width; len(p) > 0; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b := p[:min(atOnce, uint64(len(p)))]
		n := uint64(len(b)) / width
		var floats []float32
		if float32s != nil {
			b, err := float32s.View(ctx, env, off/width*4, 4*n)
			if err != nil {
				return err
			}
			floats, _ = mmapio.View[float32](b) // none if they are not in memory, or not aligned
		}
		isEncoded := false
		if len(floats) == 0 { // they are read into b, or else into scratch memory
			if e.d == layout.F32 {
				floats, _ = mmapio.View[float32](b) // empty if b is not aligned
			}
			if isEncoded = len(floats) > 0; !isEncoded {
				mem.Floats = content.Grown(mem.Floats, n)
				floats = mem.Floats
			}
			if err := e.v.Read(ctx, env, floats, off/width); err != nil {
				return err
			}
		}
		if !isEncoded {
			encode(e.d, b, floats)
		}
		p, off = p[len(b):], off+uint64(len(b))
	}
	return nil
}

// Probe probes the source of v.
func (e *encoded) Probe(ctx context.Context) (bool, error) { return e.v.Source().Probe(ctx) }

// Cost tells how the source of v is best read, by reads of some bytes also if it is in memory. They are large if it may wait for a network.
func (e *encoded) Cost() content.Cost {
	c := e.v.Source().Cost()
	c.ReadBytes = max(c.ReadBytes, content.LocalRead)
	if c.MayWait {
		c.ReadBytes = content.RemoteRead
	}
	return c
}

// ReadEncoded fills dst with the values of v from element first on, as elements of type d. d must be Encodable, and the length of dst a
// multiple of the element's size. Several workers read and encode some values each, if there are many. But a source that waits for a
// network, works on all cores itself, or is unpacked as a whole is read by large reads. ReadEncoded fails if reading does, or once ctx
// ends.
func ReadEncoded(ctx context.Context, env content.Env, v Values, d layout.DType, dst []byte, first uint64) error {
	e, width, cost := encoded{v, d}, uint64(d.BlockBytes()), v.Source().Cost()
	share := stepOfWorker * width
	shares := (uint64(len(dst)) + share - 1) / share
	if shares < 2 || parallel.Cores() < 2 || cost.LargeReads() || cost.ReadBytes > content.LocalRead || cost.OnlyWhole {
		return e.ReadAt(ctx, env, dst, first*width)
	}
	return parallel.ForEach(parallel.Workers(shares), parallel.Range(shares), func(i uint64) error {
		at := i * share
		return e.ReadAt(ctx, env, dst[at:min(at+share, uint64(len(dst)))], first*width+at)
	})
}

// stepFor returns how many values to expand at once, before they are encoded, from a source whose reads cost c.
func stepFor(c content.Cost) uint64 {
	switch {
	case c.LargeReads():
		return stepFromNetwork
	case c.ReadBytes > content.LocalRead, c.OnlyWhole:
		return stepOfAllCores
	case c.ShortReads():
		return stepFromMemory
	}
	return stepOfWorker
}

// asStored returns the content of v if its bytes are exactly the values of v, in order, as elements of type d. It returns nil without an
// error if v is stored in any other way: with a scale, say, or in another order of rows. It fails if v has no values, or if v.Blocks does.
func asStored(ctx context.Context, env content.Env, v Values, d layout.DType) (content.Content, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	b, ok, err := v.Blocks(ctx, env)
	if !ok || err != nil || b.DType != d || b.Scale != 1 || b.Order != nil {
		return nil, err
	}
	if b.From != 0 || b.Content.Size() != v.Elements()*uint64(d.BlockBytes()) { // bytes that are no values lie before or behind them
		return nil, nil
	}
	return b.Content, nil
}

// encode writes values to dst as elements of type d, on all cores if there are many.
func encode(d layout.DType, dst []byte, values []float32) {
	if len(values) < simd.ParallelMin {
		encodeOnOneCore(d, dst, values)
		return
	}
	width := d.BlockBytes()
	_ = simd.InParallel(0, len(values), simd.ParallelGrain, func(lo, hi int) error { // nothing can fail
		encodeOnOneCore(d, dst[lo*width:hi*width], values[lo:hi])
		return nil
	})
}

// encodeOnOneCore writes values to dst as elements of type d. F16 and BF16 are rounded to nearest even; any other d is taken for F32.
func encodeOnOneCore(d layout.DType, dst []byte, values []float32) {
	switch d {
	case layout.F16:
		narrow.F16(dst, values)
	case layout.BF16:
		narrow.BF16(dst, values)
	default:
		for i, f := range values {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
		}
	}
}
