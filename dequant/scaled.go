package dequant

import (
	"encoding/binary"
	"fmt"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// maxExactZero bounds the zero points for which an int8 or int16 less the zero point is surely
// exact in float32. Then scale × difference has at most 48 bits, and float64 holds it exactly. One
// float32 product is then the value that the rule asks for.
const maxExactZero = 1 << 23

// expandScaled sets dst to scale × (q − zero) for the integers q of type d in src. The difference is exact in 64 bits, and
// expandScaled fails with ErrOverflow if a difference does not fit. The product is rounded once to float32, as the formats BW2L
// and APR2 define int8 with a scale. Kernels compute difference and product in float32: maxExactZero says why the result is the
// same.
func expandScaled(d layout.DType, dst []float32, src []byte, scale float32, zero int64) error {
	k := active.scaled[d]
	if k.run == nil || zero > maxExactZero || zero < -maxExactZero {
		return expandScaledExactly(d, dst, src, scale, zero)
	}
	size := d.BlockBytes()
	for n := simd.WholeSteps(len(dst), k.step); n > 0; {
		c := simd.WholeSteps(min(n, simd.MaxCall), k.step)
		k.run(dst[:c], src[:c*size], scale, int32(zero))
		dst, src, n = dst[c:], src[c*size:], n-c
	}
	if len(dst) > 0 {
		generic.scaled[d].run(dst, src, scale, int32(zero))
	}
	return nil
}

// expandScaledExactly does what expandScaled does, without a kernel. It serves every zero point, and types without a
// scaledKernel. It fails with ErrOverflow if an integer less the zero point does not fit 64 bits.
func expandScaledExactly(d layout.DType, dst []float32, src []byte, scale float32, zero int64) error {
	factor, size := float64(scale), d.BlockBytes()
	for i := range dst {
		q := integer(src[i*size:], size)
		diff := q - zero
		if (q^zero)&(q^diff) < 0 { // diff has wrapped: zero has another sign than q, and so has diff
			return fmt.Errorf("dequant: %v: %d - zero point %d does not fit 64 bits: %w", d, q, zero, ErrOverflow)
		}
		dst[i] = float32(factor * float64(diff))
	}
	return nil
}

// integer returns the signed little-endian integer that b begins with. size is its number of bytes: 1, 2, 4 or 8.
func integer(b []byte, size int) int64 {
	switch size {
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}
