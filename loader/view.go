package loader

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// Bytes returns the elements as little-endian bytes, decompressed, in row-major order. The length
// is RawBytes. The slice is read-only: the mapping itself if ZeroCopy is true, else an aligned copy
// from the model's cache. Large compressed tensors are decompressed on all cores. Lifetime: see the
// package's documentation. A file that has shrunk is an error of the copy. Without a copy, touching
// the slice faults: see [mmapio.Guard].
func (t Tensor) Bytes() ([]byte, error) { return View[byte](t) }

// View returns the tensor's elements as a slice of T, row-major, without copying if
// Tensor.ZeroCopy is true; lifetime as for Tensor.Bytes. T is
//
//   - the Go type of the dtype: float32 for F32, int8 for I8, complex64 for C64, …
//   - or an unsigned integer as wide as one element, which gets the element's bits: uint16 (or a named
//     type of it, such as float16.Float16) for F16 and BF16, uint8 for F8_E4M3 or BOOL
//   - or byte, for the stored bytes of any dtype, blocks included.
//
// View fails with ErrUnsupported for any other T and for a logical tensor, and if reading does. On a big-endian machine a
// slice of a T wider than a byte is a copy of the caller's own. On any machine it is a copy too if T wants more
// alignment than the dtype (uint64 for C64) and the elements lack it.
func View[T mmapio.Number](t Tensor) (v []T, err error) {
	err = t.call(context.Background(), 0, func(ctx context.Context, env content.Env, s *state) error {
		if err := t.checkBytes(); err != nil {
			return err
		}
		if d := t.DType(); !viewable(reflect.TypeFor[T](), d) {
			return fmt.Errorf("%w: no view of %s as []%s", ErrUnsupported, d, reflect.TypeFor[T]())
		}
		var b []byte
		if t.ZeroCopy() {
			b, err = s.elements.View(ctx, env, 0, s.elements.Size())
		}
		if b == nil && err == nil {
			b, err = s.elements.All(ctx, env, s.elements.Content)
		}
		if err != nil {
			return err
		}
		v, err = mmapio.View[T](b)
		if errors.Is(err, mmapio.ErrByteOrder) || errors.Is(err, mmapio.ErrMisaligned) {
			v, err = mmapio.Copy[T](b)
		}
		return err
	})
	return v, err
}

// viewable reports whether elements of dtype d may be viewed as Go values of type t. Any d may be viewed as bytes. For other types, d must
// not be quantized, and each of its blocks must be one element, as wide as t. t must be an unsigned integer, or a signed integer, float or
// complex number as the elements are.
func viewable(t reflect.Type, d layout.DType) bool {
	if t.Kind() == reflect.Uint8 {
		return true
	}
	if d.BlockElems() != 1 || d.Quantized() || int(t.Size()) != d.BlockBytes() {
		return false
	}
	switch t.Kind() {
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return d.Kind() == layout.KindInt
	case reflect.Float32, reflect.Float64:
		return d.Kind() == layout.KindFloat
	case reflect.Complex64, reflect.Complex128:
		return d.Kind() == layout.KindComplex
	}
	return false
}
