package quantize

import (
	"math"

	"github.com/tensormap/tensormap/internal/block"
)

// encodeMXFP4 writes 17 bytes for 32 values: an exponent chosen by the greatest magnitude, then nibbles, each the level of E2M1
// nearest to a value.
func encodeMXFP4(dst []byte, src []float32) {
	for len(dst) >= 17 && len(src) >= 32 {
		x := (*[32]float32)(src)
		var e uint8
		if _, magnitude := firstExtreme(x[:]); magnitude > 0 {
			// As C's floorf(log2f(magnitude)): just below a power of two the logarithm rounds up to that power's.
			log2 := float32(math.Floor(float64(float32(math.Log2(float64(magnitude))))))
			e = uint8(truncate(log2 - 2 + 127))
		}
		dst[0] = e
		var levels [16]float32
		for i := range levels {
			levels[i] = float32(block.FP4[i]) * block.E8M0Half(e)
		}
		for i := range 16 {
			dst[1+i] = nearestFP4(&levels, x[i]) | nearestFP4(&levels, x[i+16])<<4
		}
		dst, src = dst[17:], src[32:]
	}
}

// nearestFP4 returns the index of the level nearest to x, the first of two.
func nearestFP4(levels *[16]float32, x float32) (index uint8) {
	least := abs(levels[0] - x)
	for i, l := range levels {
		if e := abs(l - x); e < least {
			index, least = uint8(i), e
		}
	}
	return index
}
