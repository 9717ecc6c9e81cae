package loader

import (
	"context"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
)

// WriteAs writes all values to w as little-endian elements of type d, row-major: F32, F16 or BF16. Any other type is
// ErrUnsupported, as is a tensor without values. It works for every tensor that Dequantize works for, however the tensor is
// stored, on all cores and in memory of fixed size. Nothing is cached but what can only be had as a whole.
//
// Values are the values of Float32s, rounded to the nearest even. Numbers beyond d become infinities, and NaNs stay NaNs.
// Elements that are of type d already are written as they are stored. WriteAs ends with ctx. Errors of w come back
// as they are.
func (t Tensor) WriteAs(ctx context.Context, w io.Writer, d layout.DType) (written int64, err error) {
	dst := newDestination(w)
	defer dst.finish(t, &written, &err)
	return 0, t.call(ctx, 4*t.Elements(), func(leaseCtx context.Context, env content.Env, s *state) error {
		encoded, err := values.Encoded(s.values.Current(), d)
		if err != nil {
			return err
		}
		both, stop := contextOfBoth(leaseCtx, ctx) // call joins them only if reading may wait
		defer stop()
		return content.Write(both, s.envForParts(env, &dst.pins), encoded, &parallel.Writer{Ctx: ctx, W: dst})
	})
}

// ReadAs fills dst with values as little-endian elements of type d, from element first on: the bytes that WriteAs writes for
// them. It fails with ErrRange if the length of dst is no multiple of an element's size, or if the range leaves the tensor. It
// fails with ErrUnsupported for what WriteAs does not write. It also fails if reading does, or when ctx ends. Large ranges are read on all cores.
func (t Tensor) ReadAs(ctx context.Context, dst []byte, d layout.DType, first uint64) error {
	bytesToRead := 2 * uint64(len(dst)) // about: for each element of 2 bytes a float32
	return t.call(ctx, bytesToRead, func(leaseCtx context.Context, env content.Env, s *state) error {
		if err := values.Encodable(d); err != nil {
			return err
		}
		size := d.BlockBytes()
		if len(dst)%size != 0 {
			return fmt.Errorf("%w: %d bytes are not a multiple of the %d of an element of %v", ErrRange, len(dst), size, d)
		}
		count := uint64(len(dst) / size)
		if n := t.Elements(); !layout.Within(first, count, n) {
			return fmt.Errorf("%w: %d values from element %d, but the tensor has %d", ErrRange, count, first, n)
		}
		both, stop := contextOfBoth(leaseCtx, ctx) // call joins them only if reading may wait
		defer stop()
		var pins cache.Pins
		defer t.model.cache.Unpin(&pins)
		return values.ReadEncoded(both, s.envForParts(env, &pins), s.values.Current(), d, dst, first)
	})
}
