package dequant

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
)

// maxExactZero bounds the zero points for which an int8 or int16 less the zero point is
// surely exact in float32. Then scale × difference has at most 48 bits, float64 holds it
// exactly, and one float32 product is the value that the rule asks for.
const maxExactZero = 1 << 23

// ExpandScaled writes scale × (q − zero) for the integers q in src, stored as I8, I16, I32 or I64,
// to dst. The difference is exact in 64 bits, or the error wraps ErrOverflow; the product is
// taken in float64 and rounded once to float32. (BW2L's and APR2's int8-with-scale rule.)
// Lengths are as for Expand; other types are ErrUnsupported.
func ExpandScaled(d layout.DType, dst []float32, src []byte, scale float32, zero int64) error {
	if err := checkScaled(d, len(dst), len(src)); err != nil {
		return err
	}
	return expandScaled(d, dst, src, scale, zero)
}

// ExpandScaledParallel is ExpandScaled on all of GOMAXPROCS, as ExpandParallel is Expand.
func ExpandScaledParallel(d layout.DType, dst []float32, src []byte, scale float32, zero int64) error {
	if err := checkScaled(d, len(dst), len(src)); err != nil {
		return err
	}
	if len(dst) < parallelMin {
		return expandScaled(d, dst, src, scale, zero) // without the closure, as in ExpandParallel
	}
	size := d.BlockBytes()
	return inParallel(len(dst), func(lo, hi int) error {
		return expandScaled(d, dst[lo:hi], src[lo*size:hi*size], scale, zero)
	})
}

func checkScaled(d layout.DType, elems, size int) error {
	switch d {
	case layout.I8, layout.I16, layout.I32, layout.I64:
		return check(d, elems, size)
	}
	return fmt.Errorf("dequant: %v takes no scale: %w", d, ErrUnsupported)
}

func expandScaled(d layout.DType, dst []float32, src []byte, scale float32, zero int64) error {
	k := active.scaled[d]
	if k.run == nil || zero > maxExactZero || zero < -maxExactZero {
		return expandScaledExactly(d, dst, src, scale, zero)
	}
	size := d.BlockBytes()
	for n := wholeSteps(len(dst), k.step); n > 0; {
		c := wholeSteps(min(n, maxCall), k.step)
		k.run(dst[:c], src[:c*size], scale, int32(zero))
		dst, src, n = dst[c:], src[c*size:], n-c
	}
	if len(dst) > 0 {
		generic.scaled[d].run(dst, src, scale, int32(zero))
	}
	return nil
}

// expandScaledExactly serves every zero point, and the types that have no scaledKernel.
func expandScaledExactly(d layout.DType, dst []float32, src []byte, scale float32, zero int64) error {
	var q int64
	ok := true
	switch factor := float64(scale); d {
	case layout.I8:
		q, ok = i8ExactGeneric(dst, src, factor, zero)
	case layout.I16:
		q, ok = i16ExactGeneric(dst, src, factor, zero)
	case layout.I32:
		q, ok = i32ExactGeneric(dst, src, factor, zero)
	case layout.I64:
		q, ok = i64ExactGeneric(dst, src, factor, zero)
	}
	if !ok {
		return fmt.Errorf("dequant: %v: %d - zero point %d does not fit 64 bits: %w", d, q, zero, ErrOverflow)
	}
	return nil
}
