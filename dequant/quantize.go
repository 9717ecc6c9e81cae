package dequant

import (
	"errors"
	"fmt"
	"math"

	"github.com/tensormap/tensormap/layout"
)

// CanQuantize reports whether Quantize makes type d.
func CanQuantize(d layout.DType) bool {
	return int(d) < numTypes && generic.encode[d].run != nil
}

// Quantize writes src to dst as type d, on the caller's core: see Codec.Quantize.
func Quantize(d layout.DType, dst []byte, src []float32) error {
	if err := (Codec{dtype: d}).checkQuantize(len(dst), len(src)); err != nil {
		return err
	}
	encode(d, dst, src)
	return nil
}

// Quantize writes src to dst as c stores it: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, or I8
// with a scale and no zero point. For other types the error wraps errors.ErrUnsupported. len(src) is a
// multiple of the block and dst exactly as long as the blocks take; otherwise the error wraps
// ErrLength. cores is as for Expand.
//
// Block types get the bytes that ggml's quantize_row_*_ref gives if the compiler does not contract
// x·id + c into one multiply-add. ISO C evaluates so; gcc contracts unless told
// -ffp-contract=off. For a block that holds NaNs or infinities, C leaves the conversion to an
// integer undefined, as for a scale with an infinite reciprocal. x86-64's conversion is used
// here: numbers beyond an int32 become zero.
//
// I8 becomes x / scale, rounded half away from zero and clamped to ±127 (APR1). The scale is
// positive, such as that of an I8Scale that has seen src. NaN becomes 0.
func (c Codec) Quantize(dst []byte, src []float32, cores int) error {
	if err := c.checkQuantize(len(dst), len(src)); err != nil {
		return err
	}
	if cores == 1 || len(src) < parallelMin {
		c.encode(dst, src) // without the closure, as in Expand
		return nil
	}
	elems, size := c.dtype.BlockElems(), c.dtype.BlockBytes()
	return inParallel(cores, len(src), parallelGrain, func(lo, hi int) error {
		c.encode(dst[lo/elems*size:hi/elems*size], src[lo:hi])
		return nil
	})
}

func (c Codec) checkQuantize(size, elems int) error {
	switch int8s := c.scaled && c.dtype == layout.I8 && c.quant.Zero == 0; {
	case c.scaled && !int8s, !c.scaled && !CanQuantize(c.dtype):
		return fmt.Errorf("dequant: %v has no quantizer: %w", c.dtype, errors.ErrUnsupported)
	case !fits(c.dtype, elems, size):
		return mismatch(c.dtype, elems, size)
	}
	return nil
}

// encode runs on the caller's core.
func (c Codec) encode(dst []byte, src []float32) {
	if c.scaled {
		encodeI8Generic(dst, src, c.quant.Scale)
	} else {
		encode(c.dtype, dst, src)
	}
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

// I8Scale finds the scale with which a tensor becomes int8s: the largest magnitude / 127, or 1 if
// that is zero. The values may come in pieces.
type I8Scale struct {
	most uint32 // the bits of the largest magnitude, which order as the magnitudes do
}

// Add takes the next values into account.
func (s *I8Scale) Add(src []float32) {
	for _, x := range src {
		s.most = max(s.most, math.Float32bits(x)&^(1<<31))
	}
}

// Scale returns the scale for all values added. A NaN or an infinity among them is ErrNotFinite.
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
