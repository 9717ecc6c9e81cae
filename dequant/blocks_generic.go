package dequant

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/internal/block"
)

// nibbleFloats[n] is n − 8, the value of a Q4_0 nibble before scaling.
var nibbleFloats = [16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}

// iq4Floats and fp4Floats are codebooks as floats. fp4Floats are doubled, as block.FP4 is.
var iq4Floats, fp4Floats = asFloats(&block.IQ4), asFloats(&block.FP4)

// asFloats returns the sixteen values as float32s.
func asFloats(codes *[16]int8) (f [16]float32) {
	for i, c := range codes {
		f[i] = float32(c)
	}
	return f
}

// q4_0Generic expands blocks of Q4_0. It reads a binary16 scale d, then 16 bytes of nibbles, the low ones first. Values are
// d·(nibble − 8).
func q4_0Generic(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 32 {
		expandNibbles((*[32]float32)(dst), (*[16]byte)(src[2:18]), &nibbleFloats, block.FloatAt((*[2]byte)(src)))
		dst, src = dst[32:], src[18:]
	}
}

// iq4_NLGeneric expands blocks of IQ4_NL. It reads a binary16 scale d, then 16 bytes of nibbles, the low ones first. Values are
// d times the codebook's entry for a nibble.
func iq4_NLGeneric(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 32 {
		expandNibbles((*[32]float32)(dst), (*[16]byte)(src[2:18]), &iq4Floats, block.FloatAt((*[2]byte)(src)))
		dst, src = dst[32:], src[18:]
	}
}

// mxfp4Generic expands blocks of MXFP4. It reads a scale that is a power of two (E8M0), then 16 bytes of E2M1 nibbles, the low
// nibbles first. Values are nibbles' values times the scale, computed as the doubled values of fp4Floats times half the scale.
func mxfp4Generic(dst []float32, src []byte) {
	for len(src) >= 17 && len(dst) >= 32 {
		expandNibbles((*[32]float32)(dst), (*[16]byte)(src[1:17]), &fp4Floats, block.E8M0Half(src[0]))
		dst, src = dst[32:], src[17:]
	}
}

// nvfp4Generic expands blocks of NVFP4. It reads four scales of one byte. Then each scale has 8 bytes of E2M1 nibbles, the low
// nibbles first. Values are nibbles' values times the scale, computed as the doubled values of fp4Floats times half the scale.
func nvfp4Generic(dst []float32, src []byte) {
	for len(src) >= 36 && len(dst) >= 64 {
		b, y := (*[36]byte)(src), (*[64]float32)(dst)
		for k, scale := range (*[4]byte)(src) {
			d, out := block.UE4M3Half(scale), (*[16]float32)(y[16*k:])
			for j, q := range (*[8]byte)(b[4+8*k:]) {
				out[j] = fp4Floats[q&15] * d
				out[j+8] = fp4Floats[q>>4] * d
			}
		}
		dst, src = dst[64:], src[36:]
	}
}

// expandNibbles sets y to values[n]·d for the 32 nibbles n in qs. The low nibbles of all bytes come first,
// then the upper nibbles.
func expandNibbles(y *[32]float32, qs *[16]byte, values *[16]float32, d float32) {
	for j, q := range qs {
		y[j] = values[q&15] * d
		y[j+16] = values[q>>4] * d
	}
}

// aprQ4Generic expands blocks of APR_Q4. It reads a binary16 scale d, then 16 bytes with two consecutive elements each, the first
// in the low nibble. Values are d·(nibble − 8). A scale counts as 0 if aprScale makes it 0.
func aprQ4Generic(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 32 {
		b, y := (*[18]byte)(src), (*[32]float32)(dst)
		d := aprScale(block.FloatAt((*[2]byte)(b[0:])))
		for j, q := range (*[16]byte)(b[2:]) {
			y[2*j] = nibbleFloats[q&15] * d
			y[2*j+1] = nibbleFloats[q>>4] * d
		}
		dst, src = dst[32:], src[18:]
	}
}

// aprScale returns d, a binary16's value, or 0 if d is infinite, a NaN or subnormal in binary16. aprender does the same.
func aprScale(d float32) float32 {
	if abs := math.Float32bits(d) &^ (1 << 31); abs < 0x38800000 || abs >= 0x7f800000 { // 2⁻¹⁴, infinity
		return 0
	}
	return d
}

// q4_1Generic expands blocks of Q4_1. It reads a scale d and a minimum m, then 16 bytes of nibbles, the low ones first. Values
// are d·nibble + m.
func q4_1Generic(dst []float32, src []byte) {
	for len(src) >= 20 && len(dst) >= 32 {
		b, y := (*[20]byte)(src), (*[32]float32)(dst)
		d, m := block.FloatAt((*[2]byte)(b[0:])), block.FloatAt((*[2]byte)(b[2:]))
		var values [16]float32
		for n := range values {
			values[n] = float32(float32(n)*d) + m // the conversion forbids a fused multiply-add
		}
		for j, q := range (*[16]byte)(b[4:]) {
			y[j] = values[q&15]
			y[j+16] = values[q>>4]
		}
		dst, src = dst[32:], src[20:]
	}
}

// iq4_XSGeneric expands blocks of IQ4_XS. It reads a scale d, the upper 2 bits of eight scales of 6 bits, and then the lower 4 bits
// of these scales. Last come 16 bytes of nibbles for each scale, which are 32 elements. Values are the codebook's entries for the
// nibbles, times d·(scale − 32).
func iq4_XSGeneric(dst []float32, src []byte) {
	for len(src) >= 136 && len(dst) >= 256 {
		b := (*[136]byte)(src)
		d := block.FloatAt((*[2]byte)(b[0:]))
		high := uint(b[2]) | uint(b[3])<<8
		low := uint(b[4]) | uint(b[5])<<8 | uint(b[6])<<16 | uint(b[7])<<24
		y, qs := dst[:256], src[8:136]
		for len(y) >= 32 && len(qs) >= 16 {
			scale := int((low&15)|((high&3)<<4)) - 32
			expandNibbles((*[32]float32)(y), (*[16]byte)(qs), &iq4Floats, d*float32(scale))
			low, high = low>>4, high>>2
			y, qs = y[32:], qs[16:]
		}
		dst, src = dst[256:], src[136:]
	}
}

// fiveBitFloats[n] is n − 16, the value of a Q5_0 element before scaling.
var fiveBitFloats = tableOf(func(n int) float32 { return float32(n - 16) })

// q5_0Generic expands blocks of Q5_0. It reads a scale d, a word with the upper bits of 32 codes, and their nibbles, the low
// ones first. Values are d·(code − 16).
func q5_0Generic(dst []float32, src []byte) {
	for len(src) >= 22 && len(dst) >= 32 {
		b, y := (*[22]byte)(src), (*[32]float32)(dst)
		d := block.FloatAt((*[2]byte)(b[0:]))
		high := binary.LittleEndian.Uint32(b[2:6])
		for j, q := range (*[16]byte)(b[6:]) {
			y[j] = fiveBitFloats[uint32(q&15)|((high<<4)&16)] * d
			y[j+16] = fiveBitFloats[uint32(q>>4)|((high>>12)&16)] * d
			high >>= 1 // bits 0 and 16 become the upper bits of the next j and j+16
		}
		dst, src = dst[32:], src[22:]
	}
}

// q5_1Generic expands blocks of Q5_1. It reads a scale d and a minimum m, a word with the upper bits of 32 codes, and their
// nibbles, the low ones first. Values are d·code + m.
func q5_1Generic(dst []float32, src []byte) {
	for len(src) >= 24 && len(dst) >= 32 {
		b, y := (*[24]byte)(src), (*[32]float32)(dst)
		d, m := block.FloatAt((*[2]byte)(b[0:])), block.FloatAt((*[2]byte)(b[2:]))
		high := binary.LittleEndian.Uint32(b[4:8])
		for j, q := range (*[16]byte)(b[8:]) {
			y[j] = float32(float32(int32(uint32(q&15)|((high<<4)&16)))*d) + m
			y[j+16] = float32(float32(int32(uint32(q>>4)|((high>>12)&16)))*d) + m
			high >>= 1 // bits 0 and 16 become the upper bits of the next j and j+16
		}
		dst, src = dst[32:], src[24:]
	}
}

// q8_0Generic expands blocks of Q8_0. It reads a binary16 scale and 32 int8s. Values are their products.
func q8_0Generic(dst []float32, src []byte) {
	for len(src) >= 34 && len(dst) >= 32 {
		expandInt8s((*[32]float32)(dst), (*[32]byte)(src[2:34]), block.FloatAt((*[2]byte)(src)))
		dst, src = dst[32:], src[34:]
	}
}

// q8_1Generic expands blocks of Q8_1. It reads a binary16 scale and 32 int8s. Values are int8s times the scale. q8_1Generic
// skips the binary16 between scale and int8s, a sum for dot products.
func q8_1Generic(dst []float32, src []byte) {
	for len(src) >= 36 && len(dst) >= 32 {
		expandInt8s((*[32]float32)(dst), (*[32]byte)(src[4:36]), block.FloatAt((*[2]byte)(src)))
		dst, src = dst[32:], src[36:]
	}
}

// q8_KGeneric expands blocks of Q8_K. It reads a binary32 scale and 256 int8s. Values are int8s times the scale. q8_KGeneric
// skips the sums behind the int8s, which are for dot products.
func q8_KGeneric(dst []float32, src []byte) {
	for len(src) >= 292 && len(dst) >= 256 {
		d := math.Float32frombits(binary.LittleEndian.Uint32(src))
		y, qs := dst[:256], src[4:260]
		for len(y) >= 32 && len(qs) >= 32 {
			expandInt8s((*[32]float32)(y), (*[32]byte)(qs), d)
			y, qs = y[32:], qs[32:]
		}
		dst, src = dst[256:], src[292:]
	}
}

// expandInt8s sets y to the int8s in qs times d.
func expandInt8s(y *[32]float32, qs *[32]byte, d float32) {
	for j, q := range qs {
		y[j] = int8Floats[q] * d
	}
}
