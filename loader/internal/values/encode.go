package values

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/tensormap/tensormap/internal/narrow"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// How many values are expanded before they are encoded: by a worker, few enough for its cache, and from memory for the smallest
// cache; by all cores together; and from a source whose reads may wait for a network, in one request.
const (
	stepOfWorker = 32 << 10
	stepInMemory = 4 << 10
	stepOfAll    = 1 << 20
	stepOfSource = 4 << 20
)

// Encodable returns nil for the types that values can be encoded as: F32, F16 and BF16. It fails with errors.ErrUnsupported for others.
func Encodable(d layout.DType) error {
	switch d {
	case layout.F32, layout.F16, layout.BF16:
		return nil
	}
	return fmt.Errorf("%w: values as %v: F32, F16 and BF16 can be had", errors.ErrUnsupported, d)
}

// Write writes all values of v to w as elements of type d. If v is stored as elements of that type, it copies them. If the source of v
// suits workers, each worker reads and encodes some values at a time. For any other source it reads many values at a time, and encodes
// them on all cores. It returns the error of Encodable if d has one. It also fails if reading or w does.
func Write(ctx context.Context, env content.Env, v Values, d layout.DType, w io.Writer) error {
	if err := Encodable(d); err != nil {
		return err
	}
	if c, err := asStored(ctx, env, v, d); err != nil {
		return err
	} else if c != nil {
		return content.Write(ctx, env, c, w)
	}
	width, n := uint64(d.BlockBytes()), v.Elements()
	size := n * width
	if !suitsWorkers(v) { // large reads one after the other, each encoded on all cores
		step := min(sharedStep(v), n)
		floats, encoded := mmapio.Aligned[float32](int(step)), make([]byte, step*width)
		for first := uint64(0); first < n; first += step {
			count := min(step, n-first)
			if err := v.Read(ctx, env, floats[:count], first); err != nil {
				return err
			}
			encodeOnAllCores(d, encoded, floats[:count])
			if _, err := w.Write(encoded[:count*width]); err != nil {
				return err
			}
		}
		return nil
	}
	return parallel.WriteInOrder(w, parallel.Pieces(size), func(jobs iter.Seq[*parallel.Job]) {
		for job := range jobs {
			at := job.I * parallel.PieceBytes
			b := job.Into[:min(parallel.PieceBytes, size-at)]
			job.Done(len(b), encodeAlone(ctx, env, v, d, b, at/width))
		}
	})
}

// ReadEncoded fills dst with the values of v from element first on, as elements of type d. d must be Encodable, and the length of dst a
// multiple of the element's size. If v is stored as elements of that type, it copies them. If the source of v suits workers, each worker
// reads and encodes some values at a time. For any other source it reads many values at a time, and encodes them on all cores. It fails if
// reading does.
func ReadEncoded(ctx context.Context, env content.Env, v Values, d layout.DType, dst []byte, first uint64) error {
	width := uint64(d.BlockBytes())
	if c, err := asStored(ctx, env, v, d); err != nil {
		return err
	} else if c != nil {
		return c.ReadAt(ctx, env, dst, first*width)
	}
	n := uint64(len(dst)) / width
	if !suitsWorkers(v) { // large reads one after the other, each encoded on all cores
		mem := takeScratch()
		defer mem.release()
		mem.Floats = content.Grown(mem.Floats, min(sharedStep(v), n))
		for ; n > 0; n = uint64(len(dst)) / width {
			floats := mem.Floats[:min(uint64(len(mem.Floats)), n)]
			if err := v.Read(ctx, env, floats, first); err != nil {
				return err
			}
			encodeOnAllCores(d, dst, floats)
			dst, first = dst[uint64(len(floats))*width:], first+uint64(len(floats))
		}
		return nil
	}
	stepCount := (n + stepOfWorker - 1) / stepOfWorker
	if stepCount < 2 || parallel.Cores() < 2 {
		return encodeAlone(ctx, env, v, d, dst, first)
	}
	return parallel.Each(parallel.Workers(stepCount), parallel.Range(stepCount), func(steps iter.Seq[uint64]) error {
		for i := range steps {
			from := i * stepOfWorker
			if err := encodeAlone(ctx, env, v, d, dst[from*width:min(n, from+stepOfWorker)*width], first+from); err != nil {
				return err
			}
		}
		return nil
	})
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

// suitsWorkers reports whether several workers should read and encode a few values each. It reports false if v waits for a network,
// decrypts or decompresses on all cores itself, or is unpacked as a whole.
func suitsWorkers(v Values) bool {
	c := v.Source().Cost()
	return !c.LargeReads() && !c.Parallel && !c.OnlyWhole
}

// sharedStep returns how many values of v to read at a time, if all cores then encode them together: more if v is read from a
// source that wants large reads.
func sharedStep(v Values) uint64 {
	if v.Source().Cost().LargeReads() {
		return stepOfSource
	}
	return stepOfAll
}

// encodeAlone fills dst with values of v from element first on, as elements of type d, in the caller's goroutine. The length of dst must
// be a multiple of the element's size, and v must not be stored as d. It encodes float32s where they are stored, if these are in memory.
// If d is F32, it reads values straight into dst. Otherwise it reads some at a time into scratch memory. It fails if reading does, or once
// ctx ends.
func encodeAlone(ctx context.Context, env content.Env, v Values, d layout.DType, dst []byte, first uint64) error {
	stored, err := asStored(ctx, env, v, layout.F32) // float32s to encode, without reading them first
	if err != nil {
		return err
	}
	mem := takeScratch()
	defer mem.release()
	width, step := d.BlockBytes(), stepOfWorker
	if v.Source().Cost().ShortReads() {
		step = stepInMemory
	}
	for len(dst) >= width {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(step, len(dst)/width)
		var inMemory, inDst []float32 // the values as they are stored, or dst; empty if these bytes are not there or not aligned
		switch {
		case stored != nil:
			b, err := stored.View(ctx, env, 4*first, 4*uint64(n))
			if err != nil {
				return err
			}
			inMemory, _ = mmapio.View[float32](b)
		case d == layout.F32:
			inDst, _ = mmapio.View[float32](dst[:4*n])
		}
		switch {
		case len(inMemory) > 0:
			encode(d, dst, inMemory)
		case len(inDst) > 0:
			if err := v.Read(ctx, env, inDst, first); err != nil {
				return err
			}
		default:
			mem.Floats = content.Grown(mem.Floats, uint64(n))
			if err := v.Read(ctx, env, mem.Floats, first); err != nil {
				return err
			}
			encode(d, dst, mem.Floats)
		}
		dst, first = dst[n*width:], first+uint64(n)
	}
	return nil
}

// encodeOnAllCores writes values to dst, which may be longer than they need, as elements of type d. If there are many, all cores work.
func encodeOnAllCores(d layout.DType, dst []byte, values []float32) {
	width := d.BlockBytes()
	_ = simd.InParallel(0, len(values), simd.ParallelGrain, func(lo, hi int) error { // nothing can fail
		encode(d, dst[lo*width:hi*width], values[lo:hi])
		return nil
	})
}

// encode writes values to dst as elements of type d. F16 and BF16 are rounded to nearest even; any other d is taken for F32.
func encode(d layout.DType, dst []byte, values []float32) {
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
