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
		greatest, magnitude := uint32(0), float32(0)
		for _, v := range x {
			greatest = max(greatest, math.Float32bits(v)&^signBit)
		}
		if _, magnitude = firstExtreme(x[:]); magnitude > 0 {
			// As C's floorf(log2f(magnitude)): just below a power of two the logarithm rounds up to that power's.
			log2 := float32(math.Floor(float64(float32(math.Log2(float64(magnitude))))))
			e = uint8(truncate(log2 - 2 + 127))
		}
		dst[0] = e
		if scale := block.E8M0Half(e); greatest < infinity && magnitude > scale && scale < 0x1p125 { // and all levels are finite
			var limits [7]uint32
			for i := range limits {
				limits[i] = math.Float32bits(scale * fp4Limits[i])
			}
			for i := range 16 {
				dst[1+i] = codeFP4(&limits, x[i]) | codeFP4(&limits, x[i+16])<<4
			}
		} else {
			var levels [16]float32
			for i := range levels {
				levels[i] = float32(block.FP4[i]) * scale
			}
			for i := range 16 {
				dst[1+i] = nearestFP4(&levels, x[i]) | nearestFP4(&levels, x[i+16])<<4
			}
		}
		dst, src = dst[17:], src[32:]
	}
}

// fp4Limits are half-way between the magnitudes of codes. Their products with a scale are exact.
var fp4Limits = [7]float32{0.5, 1.5, 2.5, 3.5, 5, 7, 10}

// codeFP4 returns the code of the level nearest to x, the smaller one of two, and never minus zero. limits are the bits
// of magnitudes, which order as these do.
func codeFP4(limits *[7]uint32, x float32) uint8 {
	bits := math.Float32bits(x)
	code := uint32(0)
	for _, l := range limits {
		code += (l - bits&^signBit) >> 31
	}
	return uint8(code | bits>>31<<3&((-code>>31)<<3))
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
