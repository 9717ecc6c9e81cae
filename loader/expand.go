package loader

import (
	"context"
	"fmt"
	"iter"
	"math/bits"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// Float32s returns the tensor's values, row-major and read-only. For a raw and aligned F32 tensor
// they are a view of the mapping. Otherwise they are expanded on first use, once however many
// goroutines ask, and cached. All callers get the same slice until the cache
// evicts it. The slice is valid beyond that. Lifetime: see the package's documentation.
//
// A tensor that would take more than Options.TensorBytes is ErrTooLarge. Integers that the
// file gives a scale expand to scale × (q − zero point). Types without a
// defined value are ErrUnsupported; a mapped file that has shrunk is mmapio.ErrFault.
func (t Tensor) Float32s() (v []float32, err error) {
	if t.state().codec() == plainCodecs[layout.F32] { // the elements are the values
		return View[float32](t)
	}
	err = t.call(context.Background(), 0, func(ctx context.Context, env content.Env, s *state) error {
		v, err = s.values.All(ctx, env)
		return err
	})
	return v, err
}

// Dequantize writes all values to dst, whose length must be the number of elements. Large tensors are expanded on all
// cores, small ones without allocating. Nothing is cached. It fails if dst has another length (ErrRange), if the type
// has no values, or if reading does.
func (t Tensor) Dequantize(dst []float32) error {
	return t.call(context.Background(), 4*uint64(len(dst)), func(ctx context.Context, env content.Env, s *state) error {
		if uint64(len(dst)) != t.Elements() {
			return fmt.Errorf("%w: memory for %d values, but the tensor has %d", ErrRange, len(dst), t.Elements())
		}
		return s.values.Current().Read(ctx, env, dst, 0)
	})
}

// DequantizeRows writes the values of n rows, from row first on, to dst, whose length must
// be n × the innermost dimension. Only the blocks that hold these rows are read: looking up
// one embedding costs one row. A row of a compressed tensor costs the blocks of 64 KiB that hold it and,
// once, the lengths of the blocks before them. A scalar is one row of one element.
//
// Bytes of a compressed tensor that the model's cache has are read from there. Nothing is put
// there, except by a tensor that can only be unpacked as a whole (layout.Encoding.Packed).
func (t Tensor) DequantizeRows(dst []float32, first, n uint64) error {
	return t.call(context.Background(), 4*uint64(len(dst)), func(ctx context.Context, env content.Env, s *state) error {
		rows, cols := t.Rows()
		if !layout.Within(first, n, rows) {
			return fmt.Errorf("%w: %d rows from row %d on, counted from 0, but the tensor has %d", ErrRange, n, first, rows)
		}
		if hi, want := bits.Mul64(n, cols); hi != 0 || uint64(len(dst)) != want {
			return fmt.Errorf("%w: memory for %d values, but %d × %d come out", ErrRange, len(dst), n, cols)
		}
		return s.values.Current().Read(ctx, env, dst, first*cols)
	})
}

// DequantizeRange writes the values of len(dst) elements to dst, from element first on in row-major order. The range may begin and
// end inside a row or a block. It fails if the range leaves the tensor (ErrRange), if the type has no values, or if reading does.
func (t Tensor) DequantizeRange(dst []float32, first uint64) error {
	return t.call(context.Background(), 4*uint64(len(dst)), func(ctx context.Context, env content.Env, s *state) error {
		if n := t.Elements(); !layout.Within(first, uint64(len(dst)), n) {
			return fmt.Errorf("%w: %d values from element %d, but the tensor has %d", ErrRange, len(dst), first, n)
		}
		return s.values.Current().Read(ctx, env, dst, first)
	})
}

// Run holds consecutive values of a tensor.
type Run struct {
	First  uint64    // index of the first value, in row-major order
	Values []float32 // a part of the caller's buffer, overwritten by the next step
}

// Values iterates over all values in row-major order, len(buf) of them at a time. The last run may be shorter. Each run lies in buf,
// and overwrites the one before. If buf holds n rows, each run is n rows and begins with row First/columns. If reading fails, it
// yields the error and ends. It yields ErrRange if buf is empty and the tensor is not.
func (t Tensor) Values(buf []float32) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		step, n := uint64(len(buf)), t.Elements()
		var pins cache.Pins // of what a run puts into the cache, so that it stays there for later runs
		defer t.model.cache.Unpin(&pins)
		for first := uint64(0); first < n; first += step { // with a step of 0, the error below ends it
			run := Run{first, buf[:min(step, n-first)]}
			err := t.call(context.Background(), 4*uint64(len(run.Values)), func(ctx context.Context, env content.Env, s *state) error {
				if step == 0 {
					return fmt.Errorf("%w: a buffer of no values", ErrRange)
				}
				return s.values.Current().Read(ctx, s.envForParts(env, &pins), run.Values, first)
			})
			if !yield(run, err) || err != nil {
				return
			}
		}
	}
}

// Rows returns the number of the tensor's rows as a matrix, and the number of values in each. Columns are the innermost dimension,
// and all others make rows. A scalar is 1 × 1. A tensor whose innermost dimension is 0 is 0 × 0.
func (t Tensor) Rows() (rows, cols uint64) {
	shape := t.Shape()
	if len(shape) == 0 {
		return 1, 1
	}
	last := len(shape) - 1
	rows, _ = layout.Elements(shape[:last])
	if shape[last] == 0 {
		// Outer dimensions of an empty tensor may multiply to anything.
		return 0, 0
	}
	return rows, uint64(shape[last])
}
