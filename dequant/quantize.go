package dequant

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/tensormap/tensormap/layout"
)

// CanQuantize reports whether Quantize makes type d.
func CanQuantize(d layout.DType) bool {
	return int(d) < numTypes && generic.encode[d].run != nil
}

// Quantize writes src to dst as c stores it: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to
// Q6_K, IQ4_NL, IQ4_XS, MXFP4, or I8 with a scale and no zero point. For other types the error wraps errors.ErrUnsupported. len(src) is a
// multiple of the block and dst exactly as long as the blocks take; otherwise the error wraps
// ErrLength. cores is as for Expand.
//
// Block types get the bytes that ggml's quantize_q4_0, quantize_q4_K and so on give if the compiler does not contract
// x·id + c into one multiply-add. ISO C evaluates so; gcc contracts unless told
// -ffp-contract=off. For a block that holds NaNs or infinities, C leaves the conversion to an
// integer undefined, as for a scale with an infinite reciprocal. x86-64's conversion is used
// here: numbers beyond an int32 become zero.
//
// I8 becomes x / scale, rounded half away from zero and clamped to ±127 (APR1). The scale is
// positive, such as that of an I8Scale that has seen src. NaN becomes 0.
//
// importance has one number for each element of a row, all finite and not negative. Rows then get the least error
// weighted by it, and the bytes are those of ggml's functions with these quant_weights. Types without a search
// ignore it: floats, Q8_0, MXFP4 and I8. len(src) is a multiple of len(importance), and that one of the block.
// Otherwise the error wraps ErrLength. A nil importance is none. A block that it leaves nothing of, because all is 0 or sums
// leave float32, is weighed evenly: ggml gives it a scale of NaN or 0.
//
// Quantize does not look at what has become of the numbers. QuantizeLoss does.
func (c Codec) Quantize(dst []byte, src, importance []float32, cores int) error {
	if err := c.checkQuantize(len(dst), len(src), importance); err != nil {
		return err
	}
	if importance == nil && (cores == 1 || len(src) < parallelMin) {
		c.encode(dst, src) // without the closure, as in Expand
		return nil
	}
	encode, grain, row := c.encoder(importance)
	elems, size := c.dtype.BlockElems(), c.dtype.BlockBytes()
	return inParallel(cores, len(src), grain, func(lo, hi int) error {
		for n := cmp.Or(row, hi-lo); lo < hi; lo += n {
			encode(dst[lo/elems*size:(lo+n)/elems*size], src[lo:lo+n])
		}
		return nil
	})
}

// encoder returns how c makes its bytes: by whole rows if importance changes them, else row is 0. A share of grain
// elements is worth a goroutine.
func (c Codec) encoder(importance []float32) (encode func(dst []byte, src []float32) (even int), grain, row int) {
	byImportance := weightedEncoders[c.dtype]
	if len(importance) == 0 || c.scaled || byImportance == nil {
		return func(dst []byte, src []float32) int { c.encode(dst, src); return 0 }, parallelGrain, 0
	}
	row = len(importance)
	return func(dst []byte, src []float32) int { return byImportance(dst, src, importance) }, (parallelGrain + row - 1) / row * row, row
}

// weightedEncoders encode one row by the importance of its elements. They return how many blocks are weighed evenly.
var weightedEncoders = [numTypes]func(dst []byte, row, importance []float32) (even int){
	layout.Q4_0: weighted(blocksQ4_0, toEight, false), layout.Q4_1: weighted(blocksQ4_1, weighed4, true),
	layout.Q5_0: weighted(blocksQ5_0, toSixteen, false), layout.Q5_1: weighted(blocksQ5_1, weighed5, true),
	layout.Q2_K: encodeQ2_K, layout.Q3_K: encodeQ3_K, layout.Q4_K: encodeQ4_K, layout.Q5_K: encodeQ5_K, layout.Q6_K: encodeQ6_K,
	layout.IQ4_NL: encodeIQ4_NL, layout.IQ4_XS: encodeIQ4_XS,
}

// unweighted returns an encoder that knows of no importance.
func unweighted(encode func(dst []byte, src, importance []float32) int) func(dst []byte, src []float32) {
	return func(dst []byte, src []float32) { encode(dst, src, nil) }
}

func (c Codec) checkQuantize(size, elems int, importance []float32) error {
	switch int8s, n := c.scaled && c.dtype == layout.I8 && c.quant.Zero == 0, len(importance); {
	case c.scaled && !int8s, !c.scaled && !CanQuantize(c.dtype):
		return fmt.Errorf("dequant: %v has no quantizer: %w", c.dtype, errors.ErrUnsupported)
	case importance != nil && (n == 0 || elems%n != 0 || n%c.dtype.BlockElems() != 0):
		return fmt.Errorf("dequant: %v: importance of %d elements for %d: %w", c.dtype, n, elems, ErrLength)
	}
	return checkTensor(c.dtype, elems, size)
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
