package dequant

import "github.com/tensormap/tensormap/internal/block"

// The types of one and two bits an element, and of three levels.

// oneBitLevels are the levels of the nibbles that signs makes of bits: 1 for nibble 8, −1 for nibble 0.
var oneBitLevels = [16]float32{0: -1, 8: 1}

// q1_0Generic expands blocks of Q1_0. It reads a scale d, then 16 bytes with a bit for each of 128 elements, the first in the
// lowest bit. The value of an element is d if its bit is set, and −d if its bit is clear.
func q1_0Generic(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 128 {
		d := block.FloatAt((*[2]byte)(src))
		out := (*[128]float32)(dst)
		for l, q := range (*[16]byte)(src[2:18]) {
			// signs[q] has nibble 8 for each set bit of q, and nibble 0 for each clear bit. Nibbles index oneBitLevels.
			expandGroup((*[8]float32)(out[8*l:]), signs[q], &oneBitLevels, d)
		}
		dst, src = dst[128:], src[18:]
	}
}

// threeLevels returns the values of the codes of two bits: entry q is d·(q − 1). Types of three levels use the codes 0, 1 and
// 2. Two bits can hold code 3 too, whose value is 2·d. The value of code 1 is 0·d: it has the sign of d, and is a NaN if d is
// not finite.
func threeLevels(d float32) [4]float32 { return [4]float32{-d, 0 * d, d, 2 * d} }

// q2_0Generic expands blocks of Q2_0. It reads a scale d, then 16 bytes. A byte has the codes of four consecutive elements, two
// bits each, the first in the lowest bits. Values are d·(code − 1), also for code 3.
func q2_0Generic(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 64 {
		values := threeLevels(block.FloatAt((*[2]byte)(src)))
		out := (*[64]float32)(dst)
		for l, q := range (*[16]byte)(src[2:18]) {
			y := (*[4]float32)(out[4*l:])
			y[0], y[1], y[2], y[3] = values[q&3], values[(q>>2)&3], values[(q>>4)&3], values[q>>6]
		}
		dst, src = dst[64:], src[18:]
	}
}

// tq2_0Generic expands blocks of TQ2_0. It reads two halves of 32 bytes, then a scale d. A half has 128 codes of 2 bits. Bits 0
// and 1 of its bytes are its first 32 codes, bits 2 and 3 the next 32, and so on. Values are
// d·(code − 1).
func tq2_0Generic(dst []float32, src []byte) {
	for len(src) >= 66 && len(dst) >= 256 {
		values := threeLevels(block.FloatAt((*[2]byte)(src[64:66])))
		y, qs := dst[:256], src[:64]
		for len(y) >= 128 && len(qs) >= 32 {
			out := (*[128]float32)(y)
			for l, q := range (*[32]byte)(qs) {
				out[l], out[l+32], out[l+64], out[l+96] = values[q&3], values[(q>>2)&3], values[(q>>4)&3], values[q>>6]
			}
			y, qs = y[128:], qs[32:]
		}
		dst, src = dst[256:], src[66:]
	}
}

// tq1_0Generic expands blocks of TQ1_0. It reads 32 bytes and then 16 bytes with five codes a byte, 4 bytes with four codes a
// byte, and a scale d. expandTrits says how bytes hold codes. Values are d·(code − 1).
func tq1_0Generic(dst []float32, src []byte) {
	for len(src) >= 54 && len(dst) >= 256 {
		values := threeLevels(block.FloatAt((*[2]byte)(src[52:54])))
		expandTrits(dst[:160], src[:32], &values)
		expandTrits(dst[160:240], src[32:48], &values)
		expandTrits(dst[240:256], src[48:52], &values)
		dst, src = dst[256:], src[54:]
	}
}

// expandTrits sets y to the values of the ternary codes in qs, until y is full. Byte q stands for the fraction q/256. The first
// five digits of that fraction in base three are five codes: 0, 1 or 2. The first len(qs) elements of y have the first digits
// of all bytes, the next len(qs) elements the second digits, and so on. len(y) is a multiple of len(qs).
func expandTrits(y []float32, qs []byte, values *[4]float32) {
	for power := byte(1); len(y) >= len(qs); power *= 3 {
		for m, q := range qs {
			// q*power wraps, which drops the digits of earlier turns. Three times the rest has the next digit in bits 8 and 9.
			y[m] = values[((uint(q*power)*3)>>8)&3]
		}
		y = y[len(qs):]
	}
}
