package quantize

import (
	"errors"
	"fmt"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// Supported reports whether Encode writes type d without a scale for the tensor. d is a float or a block type then.
func Supported(d layout.DType) bool {
	return int(d) < numTypes && generic.encode[d].run != nil
}

// Encode writes src to dst as c stores it: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to
// Q6_K, IQ4_NL, IQ4_XS, MXFP4, or I8 with a scale and no zero point. For other types the error wraps
// errors.ErrUnsupported. len(src) is a multiple of the block, and dst exactly as long as the blocks take;
// otherwise the error wraps dequant.ErrLength. After an error the contents of dst are unspecified.
//
// A large src is shared out to as many goroutines as cores says, as [dequant.Codec.Expand] does. A small one is encoded
// without allocating.
//
// Block types get the bytes that ggml's quantize_q4_0, quantize_q4_K and so on give if the compiler does not contract
// x·id + c into one multiply-add. ISO C evaluates so; gcc contracts unless told
// -ffp-contract=off. For a block that holds NaNs or infinities, C leaves the conversion to an
// integer undefined, as for a scale with an infinite reciprocal. x86-64's conversion is used
// here: numbers beyond an int32 become zero.
//
// I8 becomes x / scale, rounded half away from zero and clamped to ±127 (APR1). The scale is
// positive, such as the scale of an [Int8Scale] that has seen src. NaN becomes 0.
//
// importance has one number for each element of a row, all finite and not negative. Rows then get the least error
// weighted by it, and the bytes are the bytes of ggml's functions with these quant_weights. Types without a search
// ignore it: floats, Q8_0, MXFP4 and I8. len(src) is a multiple of len(importance), and that one of the block.
// Otherwise the error wraps dequant.ErrLength. A nil importance is none. A block that it leaves nothing of, because all
// is 0 or sums leave float32, is weighed evenly: ggml gives it a scale of NaN or 0.
//
// Encode does not look at what has become of the numbers. EncodeLoss does.
func Encode(c dequant.Codec, dst []byte, src, importance []float32, cores int) error {
	if err := check(c, len(dst), len(src), importance); err != nil {
		return err
	}
	d, quant, _ := c.Elements()
	if cores == 1 || len(src) < simd.ParallelMin {
		encode(d, quant.Scale, dst, src, importance) // without the closure, which would be allocated
		return nil
	}
	elems, size := d.BlockElems(), d.BlockBytes()
	return simd.InParallel(cores, len(src), wholeRows(simd.ParallelGrain, d, importance), func(lo, hi int) error {
		encode(d, quant.Scale, dst[lo/elems*size:hi/elems*size], src[lo:hi], importance)
		return nil
	})
}

// check returns an error if no quantizer writes what c reads, or if elems elements do not become size bytes. It also fails if importance
// does not divide the elements into rows of whole blocks.
func check(c dequant.Codec, size, elems int, importance []float32) error {
	d, quant, scaled := c.Elements()
	int8s := scaled && d == layout.I8 && quant.Zero == 0
	if scaled && !int8s || !scaled && !Supported(d) {
		return fmt.Errorf("quantize: %v has no quantizer: %w", d, errors.ErrUnsupported)
	}
	n, block := len(importance), d.BlockElems()
	switch want := elems / block * d.BlockBytes(); {
	case importance != nil && (n == 0 || elems%n != 0 || n%block != 0):
		return fmt.Errorf("quantize: %v: importance of %d elements for %d: %w", d, n, elems, dequant.ErrLength)
	case elems%block != 0:
		return fmt.Errorf("quantize: %v: %d elements are no multiple of the block of %d: %w", d, elems, block, dequant.ErrLength)
	case want != size:
		return fmt.Errorf("quantize: %v: %d elements take %d bytes, not %d: %w", d, elems, want, size, dequant.ErrLength)
	}
	return nil
}

// wholeRows returns n, rounded up to whole rows if importance counts for elements of type d.
func wholeRows(n int, d layout.DType, importance []float32) int {
	row := len(importance)
	if row == 0 || searched[d].encode == nil {
		return n
	}
	return (n + row - 1) / row * row
}

// unweighted returns the portable encoder of d, a type with a search, without an importance.
func unweighted(d layout.DType) func(dst []byte, src []float32) {
	return func(dst []byte, src []float32) { encodeSearched(d, dst, src, nil) }
}

// encode writes src to dst as type d, on the caller's core: by importance, row by row, or by the active kernel. The caller has checked
// that both are the same whole blocks, and whole rows. scale is the scale of int8s; other types ignore it. encode returns how many blocks
// it weighed evenly, as their importance left no scale.
func encode(d layout.DType, scale float32, dst []byte, src, importance []float32) (even int) {
	elems, size := d.BlockElems(), d.BlockBytes()
	switch row := len(importance); {
	case d == layout.I8:
		encodeI8Generic(dst, src, scale)
		return 0
	case row > 0 && searched[d].encode != nil:
		for ; len(src) > 0; dst, src = dst[row/elems*size:], src[row:] {
			even += encodeSearched(d, dst[:row/elems*size], src[:row], importance)
		}
		return even
	}
	e := active.encode[d]
	for n := simd.WholeSteps(len(src)/elems, e.step); n > 0; {
		c := simd.WholeSteps(min(n, simd.MaxCall/elems), e.step)
		e.run(dst[:c*size], src[:c*elems])
		dst, src, n = dst[c*size:], src[c*elems:], n-c
	}
	if len(src) > 0 {
		generic.encode[d].run(dst, src)
	}
	return 0
}
