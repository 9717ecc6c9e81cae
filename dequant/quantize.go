package dequant

import (
	"errors"
	"fmt"
	"math"

	"github.com/tensormap/tensormap/layout"
)

// ErrNotFinite is wrapped where a NaN or an infinity leaves no scale for the other elements.
var ErrNotFinite = errors.New("value is not finite")

// CanQuantize reports whether Quantize makes type d.
func CanQuantize(d layout.DType) bool {
	return int(d) < numTypes && generic.encode[d].run != nil
}

// Quantize writes src to dst as type d: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0. len(src) is
// a multiple of the block and dst exactly as long as the blocks take; otherwise the error
// wraps ErrLength. For other types it wraps ErrUnsupported.
//
// Block types get the bytes that ggml's quantize_row_*_ref gives where the compiler does
// not contract x·id + c into one multiply-add (ISO C's evaluation; gcc contracts
// unless told -ffp-contract=off). For a block that holds NaNs or infinities, or whose scale is
// so small that its reciprocal is infinite, C leaves the conversion to an integer undefined;
// it is done here as x86-64 does it: what does not fit an int32 becomes zero.
func Quantize(d layout.DType, dst []byte, src []float32) error {
	if !CanQuantize(d) {
		return fmt.Errorf("dequant: %v has no quantizer: %w", d, ErrUnsupported)
	}
	if err := check(d, len(src), len(dst)); err != nil {
		return err
	}
	encode(d, dst, src)
	return nil
}

// QuantizeParallel is Quantize on all of GOMAXPROCS, as ExpandParallel is Expand.
func QuantizeParallel(d layout.DType, dst []byte, src []float32) error {
	if !CanQuantize(d) || check(d, len(src), len(dst)) != nil {
		return Quantize(d, dst, src)
	}
	if len(src) < parallelMin {
		encode(d, dst, src) // without the closure, as in ExpandParallel
		return nil
	}
	elems, size := d.BlockElems(), d.BlockBytes()
	return inParallel(len(src), func(lo, hi int) error {
		encode(d, dst[lo/elems*size:hi/elems*size], src[lo:hi])
		return nil
	})
}

// encode runs the active encoder over checked whole blocks.
func encode(d layout.DType, dst []byte, src []float32) {
	elems, size := d.BlockElems(), d.BlockBytes()
	e := active.encode[d]
	for n := wholeSteps(len(src)/elems, e.step); n > 0; {
		c := wholeSteps(min(n, maxCall/elems), e.step)
		e.run(dst[:c*size], src[:c*elems])
		dst, src, n = dst[c*size:], src[c*elems:], n-c
	}
	if len(src) > 0 {
		generic.encode[d].run(dst, src)
	}
}

// ToI8 quantizes a whole tensor to int8 with one scale, the largest magnitude / 127, or 1 where that
// is zero: q = x / scale, rounded half away from zero and clamped to ±127 (APR1). ExpandScaled
// with this scale and zero point 0 is the inverse. dst is as long as src, else the error
// wraps ErrLength; a NaN or an infinity in src is ErrNotFinite.
func ToI8(dst []byte, src []float32) (scale float32, err error) {
	if len(dst) != len(src) {
		return 0, check(layout.I8, len(src), len(dst))
	}
	var m I8Scale
	m.Add(src)
	if scale, err = m.Scale(); err != nil {
		return 0, err
	}
	return scale, ToI8Scaled(dst, src, scale)
}

// I8Scale finds the scale that ToI8 would give a tensor whose values come in pieces.
type I8Scale struct {
	most uint32 // the bits of the largest magnitude, which order as the magnitudes do
}

// Add takes the next values into account.
func (s *I8Scale) Add(src []float32) {
	for _, x := range src {
		s.most = max(s.most, math.Float32bits(x)&^(1<<31))
	}
}

// Scale is the scale for all values added; a NaN or an infinity among them is ErrNotFinite.
func (s *I8Scale) Scale() (float32, error) {
	most := math.Float32frombits(s.most)
	if s.most >= 0x7f800000 {
		return 0, fmt.Errorf("dequant: int8 quantization: magnitude %v: %w", most, ErrNotFinite)
	}
	if scale := most / 127; scale != 0 {
		return scale, nil
	}
	return 1, nil
}

// ToI8Scaled writes src as integers, the second half of ToI8. The scale is positive, such as that
// of an I8Scale that has seen src. A quotient beyond ±127, even an infinite one, is clamped; NaN
// becomes 0. It takes all of GOMAXPROCS, as ExpandParallel does.
func ToI8Scaled(dst []byte, src []float32, scale float32) error {
	if len(dst) != len(src) {
		return check(layout.I8, len(src), len(dst))
	}
	if len(src) < parallelMin {
		encodeI8Generic(dst, src, scale) // without the closure, as in ExpandParallel
		return nil
	}
	return inParallel(len(src), func(lo, hi int) error {
		encodeI8Generic(dst[lo:hi], src[lo:hi], scale)
		return nil
	})
}
