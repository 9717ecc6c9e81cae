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

// Encodable returns why values are not encoded as elements of type d, or nil.
func Encodable(d layout.DType) error {
	switch d {
	case layout.F32, layout.F16, layout.BF16:
		return nil
	}
	return fmt.Errorf("%w: values as %v: F32, F16 and BF16 can be had", errors.ErrUnsupported, d)
}

// Write writes all values of v to w as elements of type d. The error is that of Encodable, of reading or of w.
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
			step := min(step, n-first)
			if err := v.Read(ctx, env, floats[:step], first); err != nil {
				return err
			}
			if err := encodeOnAllCores(d, encoded, floats[:step]); err != nil {
				return err
			}
			if _, err := w.Write(encoded[:step*width]); err != nil {
				return err
			}
		}
		return nil
	}
	return parallel.WriteInOrder(w, parallel.Pieces(size), func(jobs iter.Seq[*parallel.Job]) {
		for job := range jobs {
			at := job.I * parallel.PieceBytes
			b := job.Into[:min(parallel.PieceBytes, size-at)]
			job.Done(len(b), readEncoded(ctx, env, v, d, b, at/width))
		}
	})
}

// ReadEncoded fills dst with the values of v from element first on, as elements of type d. The type must be Encodable,
// and the length of dst a multiple of the element's size. It fails if reading does.
func ReadEncoded(ctx context.Context, env content.Env, v Values, d layout.DType, dst []byte, first uint64) error {
	width := uint64(d.BlockBytes())
	if c, err := asStored(ctx, env, v, d); err != nil {
		return err
	} else if c != nil {
		return c.ReadAt(ctx, env, dst, first*width)
	}
	n := uint64(len(dst)) / width
	if !suitsWorkers(v) { // large reads one after the other, each encoded on all cores
		step := min(sharedStep(v), n)
		mem := takeScratch()
		defer mem.release()
		mem.Floats = content.Grown(mem.Floats, step)
		floats := mem.Floats
		for ; n > 0; n = uint64(len(dst)) / width {
			step := min(step, n)
			if err := v.Read(ctx, env, floats[:step], first); err != nil {
				return err
			}
			if err := encodeOnAllCores(d, dst, floats[:step]); err != nil {
				return err
			}
			dst, first = dst[step*width:], first+step
		}
		return nil
	}
	steps := (n + stepOfWorker - 1) / stepOfWorker
	if steps < 2 || parallel.Cores() < 2 {
		return readEncoded(ctx, env, v, d, dst, first)
	}
	return parallel.Each(parallel.Workers(steps), parallel.Range(steps), func(steps iter.Seq[uint64]) error {
		for i := range steps {
			from := i * stepOfWorker
			if err := readEncoded(ctx, env, v, d, dst[from*width:min(n, from+stepOfWorker)*width], first+from); err != nil {
				return err
			}
		}
		return nil
	})
}

// asStored returns the content of v if its bytes are the values as elements of type d already, else nil: no scale, no
// other order of rows, nothing before them. The error is that of v.
func asStored(ctx context.Context, env content.Env, v Values, d layout.DType) (content.Content, error) {
	if err := v.Err(); err != nil {
		return nil, err
	}
	b, ok, err := v.Blocks(ctx, env)
	if !ok || err != nil || b.DType != d || b.From != 0 || b.Scale != 1 || b.Order != nil || b.Content.Size() != v.Elements()*uint64(d.BlockBytes()) {
		return nil, err
	}
	return b.Content, nil
}

// suitsWorkers reports whether several workers should read and encode a few values each. If not, v wants large reads: it
// waits for a network, decompresses on all cores itself, or is unpacked as a whole.
func suitsWorkers(v Values) bool {
	c := v.Source().Cost()
	return !c.LargeReads() && !c.Parallel && !c.OnlyWhole
}

// sharedStep returns how many values of v to read at a time, if all workers share each step: more if v is read from a
// source that wants large reads.
func sharedStep(v Values) uint64 {
	if v.Source().Cost().LargeReads() {
		return stepOfSource
	}
	return stepOfAll
}

// readEncoded fills dst with values of v from element first on, as elements of type d, in the caller's goroutine. The
// length of dst must be a multiple of the element's size: otherwise it would not end. v must not be stored as d. It fails as v.Read does,
// or once ctx ends.
func readEncoded(ctx context.Context, env content.Env, v Values, d layout.DType, dst []byte, first uint64) error {
	stored, err := asStored(ctx, env, v, layout.F32)
	if err != nil {
		return err
	}
	mem := takeScratch()
	defer mem.release()
	width, step := d.BlockBytes(), stepOfWorker
	if v.Source().Cost().ShortReads() {
		step = stepInMemory
	}
	for len(dst) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(step, len(dst)/width)
		var at []byte // where the values are as float32s: stored, or read into dst
		if stored != nil {
			if at, err = stored.View(ctx, env, 4*first, 4*uint64(n)); err != nil {
				return err
			}
		} else if d == layout.F32 {
			at = dst[:4*n]
		}
		floats, _ := mmapio.View[float32](at) // none if they are not aligned
		isInPlace := len(floats) > 0
		if !isInPlace {
			mem.Floats = content.Grown(mem.Floats, uint64(n))
			floats = mem.Floats
		}
		if !isInPlace || stored == nil {
			if err := v.Read(ctx, env, floats, first); err != nil {
				return err
			}
		}
		if !isInPlace || stored != nil {
			encode(d, dst, floats)
		}
		dst, first = dst[n*width:], first+uint64(n)
	}
	return nil
}

// encodeOnAllCores encodes values as elements of type d into dst, on all cores if there are many. It always returns nil.
func encodeOnAllCores(d layout.DType, dst []byte, values []float32) error {
	width := d.BlockBytes()
	return simd.InParallel(0, len(values), simd.ParallelGrain, func(lo, hi int) error {
		encode(d, dst[lo*width:hi*width], values[lo:hi])
		return nil
	})
}

// encode writes values to dst as elements of type d: F16 and BF16 rounded to nearest even, any other d as F32.
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
