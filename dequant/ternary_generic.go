package dequant

import "github.com/tensormap/tensormap/internal/block"

// The types of one and two bits an element, and of three levels.

// oneBitLevels are the levels of nibbles whose upper bit alone counts.
var oneBitLevels = [16]float32{0: -1, 8: 1}

// q1_0Generic expands blocks of Q1_0. It reads a scale d, then a bit for each of 128 elements: 1 for d, 0 for −d.
func q1_0Generic(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 128 {
		d := block.FloatAt((*[2]byte)(src))
		out := (*[128]float32)(dst)
		for l, q := range (*[16]byte)(src[2:18]) {
			expandGroup((*[8]float32)(out[8*l:]), signs[q], &oneBitLevels, d) // signs makes nibbles 8 and 0 of bits
		}
		dst, src = dst[128:], src[18:]
	}
}

// threeLevels returns the value d·(q − 1) of each code q of two bits, by code. Types of three levels use the codes 0, 1 and
// 2. Two bits can hold code 3 too, whose value is 2·d. 0·d has the sign of d, and is a NaN if d is not finite.
func threeLevels(d float32) [4]float32 { return [4]float32{-d, 0 * d, d, 2 * d} }

// q2_0Generic expands blocks of Q2_0. It reads a scale d, then 16 bytes. A byte has the codes of four neighbours, two bits
// each, the first in the lowest bits. Values are d·(code − 1), for all four codes.
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

// tq2_0Generic expands blocks of TQ2_0. It reads two halves of 32 bytes, then a scale d. A byte has four codes of 2 bits. In a
// half, the 32 codes in the lowest bits of its bytes are the first elements, then come the codes in the next bits. Values are
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

// tq1_0Generic expands blocks of TQ1_0. It reads 32 bytes of five codes each, 16 bytes of five and 4 bytes of four, then a
// scale d. expandTrits says how bytes hold codes. Values are d·(code − 1).
func tq1_0Generic(dst []float32, src []byte) {
	for len(src) >= 54 && len(dst) >= 256 {
		values := threeLevels(block.FloatAt((*[2]byte)(src[52:54])))
		expandTrits(dst[:160], src[:32], &values)
		expandTrits(dst[160:240], src[32:48], &values)
		expandTrits(dst[240:256], src[48:52], &values)
		dst, src = dst[256:], src[54:]
	}
}

// expandTrits sets y to the values of the ternary codes in qs, until it is full. Byte q stands for the fraction q/256. The
// digits of that fraction in base three, from the first on, are five codes: 0, 1 or 2. The first len(qs) elements are the
// first digits of all bytes, the next the second.
func expandTrits(y []float32, qs []byte, values *[4]float32) {
	for power := byte(1); len(y) >= len(qs); power *= 3 {
		for m, q := range qs {
			// q*power wraps, which drops the digits before. Three times the rest has the next digit above 256.
			y[m] = values[((uint(q*power)*3)>>8)&3]
		}
		y = y[len(qs):]
	}
}
