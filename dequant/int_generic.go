package dequant

import (
	"encoding/binary"
	"math/bits"
)

// int8Floats and byteFloats have the values of stored int8s and uint8s, and boolFloats the values of BOOL: any byte but zero is 1.
var (
	int8Floats = tableOf(func(b int) float32 { return float32(int8(b)) })
	byteFloats = tableOf(func(b int) float32 { return float32(b) })
	boolFloats = tableOf(func(b int) float32 { return float32(min(b, 1)) })
)

// integers16 expands little-endian integers of 16 bits to float32.
func integers16[T int16 | uint16](dst []float32, src []byte) {
	for len(src) >= 2 && len(dst) >= 1 {
		dst[0] = float32(T(binary.LittleEndian.Uint16(src)))
		dst, src = dst[1:], src[2:]
	}
}

// integers32 expands little-endian integers of 32 bits to the nearest float32.
func integers32[T int32 | uint32](dst []float32, src []byte) {
	for len(src) >= 4 && len(dst) >= 1 {
		dst[0] = float32(T(binary.LittleEndian.Uint32(src)))
		dst, src = dst[1:], src[4:]
	}
}

// i64Generic expands little-endian int64s to the nearest float32, rounded once.
func i64Generic(dst []float32, src []byte) {
	for len(src) >= 8 && len(dst) >= 1 {
		dst[0] = roundInt64(int64(binary.LittleEndian.Uint64(src)))
		dst, src = dst[1:], src[8:]
	}
}

// u64Generic expands little-endian uint64s to the nearest float32, rounded once.
func u64Generic(dst []float32, src []byte) {
	for len(src) >= 8 && len(dst) >= 1 {
		dst[0] = roundUint64(binary.LittleEndian.Uint64(src))
		dst, src = dst[1:], src[8:]
	}
}

// i8ScaledGeneric writes scale × (q − zero) for the int8s q in src. The caller has made sure that q − zero is exact
// in float32.
func i8ScaledGeneric(dst []float32, src []byte, scale float32, zero int32) {
	for i := range min(len(dst), len(src)) {
		dst[i] = float32(int32(int8(src[i]))-zero) * scale
	}
}

// i16ScaledGeneric writes scale × (q − zero) for the int16s q in src. The caller has made sure that q − zero is
// exact in float32.
func i16ScaledGeneric(dst []float32, src []byte, scale float32, zero int32) {
	for len(src) >= 2 && len(dst) >= 1 {
		dst[0] = float32(int32(int16(binary.LittleEndian.Uint16(src)))-zero) * scale
		dst, src = dst[1:], src[2:]
	}
}

// roundInt64 returns the float32 nearest to v, rounded once. On 32-bit machines Go's conversion rounds the upper and
// the lower half apart, and then their sum.
func roundInt64(v int64) float32 {
	if bits.UintSize == 64 {
		return float32(v)
	}
	if v < 0 {
		return -roundUint64(-uint64(v))
	}
	return roundUint64(uint64(v))
}

// roundUint64 returns the float32 nearest to v, rounded once. On 32-bit machines Go converts a large v by two roundings. There
// roundUint64 converts v>>11, which is exact in float64. If one of the 11 bits shifted out is set, v is no tie between two float32s. Then
// roundUint64 sets the lowest bit of v>>11, so that v>>11 is no tie either.
func roundUint64(v uint64) float32 {
	if bits.UintSize == 64 {
		return float32(v)
	}
	if v < 1<<53 {
		return float32(float64(v))
	}
	sticky := v & (1<<11 - 1) // the lowest 11 bits; sticky|-sticky has bit 63 set unless they are all zero
	return float32(float64((v>>11)|((sticky|-sticky)>>63))) * (1 << 11)
}
