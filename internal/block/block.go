// Package block holds how blocks store scales and codes, for the kernels that expand blocks and for the kernels
// that multiply by them.
package block

import (
	"encoding/binary"
	"math"
)

// IQ4 is the codebook of IQ4_NL and IQ4_XS (kvalues_iq4nl in ggml-common.h).
var IQ4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// FP4 is E2M1 doubled (kvalues_mxfp4 in ggml-common.h). Minus zero is plain zero there.
var FP4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// Float returns the value of a binary16. The bits, moved into a binary32's place, are the
// value times 2^-112, subnormals too. A product that is always exact restores it. Infinities and
// NaNs only need all exponent bits set.
func Float(h uint16) float32 {
	x := uint32(h&0x7fff) << 13
	f := math.Float32bits(math.Float32frombits(x) * 0x1p112)
	if x >= 0x7c00<<13 {
		f = x | 0x7f800000
	}
	return math.Float32frombits(f | uint32(h&0x8000)<<16)
}

// FloatAt reads the scale at the head of b.
func FloatAt(b *[2]byte) float32 { return Float(binary.LittleEndian.Uint16(b[:])) }

// E8M0Half returns 2^(e−128), half of the value that the exponent byte of an MX block has, because
// the codebook is doubled. The first two are subnormal; 255 is no NaN to ggml.
func E8M0Half(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// UE4M3Half returns half of the value that the scale byte of NVFP4 has, because the codebook is
// doubled. The byte is an E4M3 without a sign. To ggml 0x7f, E4M3's NaN, is 0, but not 0xff: the
// upper bit is otherwise ignored.
func UE4M3Half(b byte) float32 {
	exp, frac := uint32(b>>3&15), uint32(b&7)
	switch {
	case b == 0x7f:
		return 0
	case exp == 0:
		return float32(frac) * (1.0 / 1024)
	}
	return math.Float32frombits((exp+119)<<23 | frac<<20) // bias 7 for 127, and 1 for the half
}

// Q3Scales unpacks sixteen 6-bit scales, less 32. Eight bytes hold the low nibbles of two each,
// four bytes the upper bits of four each.
func Q3Scales(b *[12]byte) (s [16]int8) {
	for i := range 8 {
		s[i] = int8(b[i]&15|b[8+i&3]>>(i>>2*2)&3<<4) - 32
		s[i+8] = int8(b[i]>>4|b[8+i&3]>>(4+i>>2*2)&3<<4) - 32
	}
	return s
}

// K4Scales unpacks the eight 6-bit scales and mins of Q4_K and Q5_K. The first four of each have
// bytes of their own. The upper two bits of each of them complete the other four.
func K4Scales(b *[12]byte) (scales, mins [8]uint8) {
	for k := range 4 {
		scales[k] = b[k] & 63
		mins[k] = b[k+4] & 63
		scales[k+4] = b[k+8]&15 | b[k]>>6<<4
		mins[k+4] = b[k+8]>>4 | b[k+4]>>6<<4
	}
	return scales, mins
}

// Half rounds to the nearest binary16, ties to even.
func Half(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &^= 1 << 31
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x477ff000: // at least halfway from the greatest number to 2^16
		return sign | 0x7c00
	case b < 0x38800000: // subnormal: the last place of 0.5 is the result's
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b+0xfff+b>>13&1-112<<23)>>13)
}
