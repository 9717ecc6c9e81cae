package dequant

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/internal/block"
)

// The K types hold 256 elements with scales of their own for every 16 or 32.

// q2_KGeneric expands blocks of Q2_K. It reads 16 bytes, one for every 16 elements: its lower 4 bits are a scale, its upper 4
// bits an offset. Then come 64 bytes of codes of 2 bits, d and dmin. Values are d·scale·code − dmin·offset.
func q2_KGeneric(dst []float32, src []byte) {
	for len(src) >= 84 && len(dst) >= 256 {
		b := (*[84]byte)(src)
		d, dmin := block.FloatAt((*[2]byte)(b[80:])), block.FloatAt((*[2]byte)(b[82:]))
		y := dst[:256]
		for k := 0; k < 16 && len(y) >= 16; k++ {
			s := b[k]
			var values [4]float32
			dl, ml := d*float32(s&15), dmin*float32(s>>4)
			for q := range values {
				values[q] = float32(dl*float32(q)) - ml
			}
			// Group k has 16 elements. Each half of the block, of eight groups, has 32 bytes of codes: even groups use the first
			// 16 of them, odd groups the others. A byte has 2 bits for each of four groups: the bits of group k begin at bit shift.
			qs := (*[16]byte)(b[16+32*((k>>3)&1)+16*(k&1):])
			shift := k & 6
			for l, q := range qs {
				y[l] = values[(q>>shift)&3]
			}
			y = y[16:]
		}
		dst, src = dst[256:], src[84:]
	}
}

// q3_KGeneric expands blocks of Q3_K. It reads 32 bytes with the upper bits of the codes, 64 bytes with their lower 2 bits, 16
// scales of 6 bits, then d. Values are d·scale·(code − 4).
func q3_KGeneric(dst []float32, src []byte) {
	for len(src) >= 110 && len(dst) >= 256 {
		b := (*[110]byte)(src)
		d := block.FloatAt((*[2]byte)(b[108:]))
		scales := block.Q3Scales((*[12]byte)(b[96:]))
		y := dst[:256]
		for k := 0; k < 16 && len(y) >= 16; k++ {
			dl := d * float32(scales[k])
			// The bit of mask is the upper bit of a code of 3 bits. Codes 0 to 7 stand for −4 to 3.
			var values [8]float32
			for q := range values {
				values[q] = dl * float32(q-4)
			}
			// The lower bits of group k are bits shift and shift+1 of the sixteen bytes qs, as in Q2_K. The upper bits are bit k/2 of
			// the sixteen bytes mask: even groups use the first half of the block's first 32 bytes, odd groups the second half.
			qs := (*[16]byte)(b[32+32*((k>>3)&1)+16*(k&1):])
			mask := (*[16]byte)(b[16*(k&1):])
			shift, bit := k&6, (k>>1)&7
			for l, q := range qs {
				y[l] = values[((q>>shift)&3)|(((mask[l]>>bit)&1)<<2)]
			}
			y = y[16:]
		}
		dst, src = dst[256:], src[110:]
	}
}

// q4_KGeneric expands blocks of Q4_K. It reads d and dmin, eight scales and offsets of 6 bits, then nibbles. Every 32 bytes hold
// 64 nibbles: all low ones first, then all upper ones. Values are d·scale·nibble − dmin·offset.
func q4_KGeneric(dst []float32, src []byte) {
	for len(src) >= 144 && len(dst) >= 256 {
		b := (*[144]byte)(src)
		d, dmin := block.FloatAt((*[2]byte)(b[0:])), block.FloatAt((*[2]byte)(b[2:]))
		scales, mins := block.K4Scales((*[12]byte)(b[4:]))
		y, qs := dst[:256], src[16:144]
		for k := 0; k < 8 && len(y) >= 64 && len(qs) >= 32; k += 2 {
			var low, high [16]float32 // the values of all codes, for the low and the upper nibbles
			affine(low[:], d*float32(scales[k]), dmin*float32(mins[k]))
			affine(high[:], d*float32(scales[k+1]), dmin*float32(mins[k+1]))
			out := (*[64]float32)(y)
			for l, q := range (*[32]byte)(qs) {
				out[l] = low[q&15]
				out[l+32] = high[q>>4]
			}
			y, qs = y[64:], qs[32:]
		}
		dst, src = dst[256:], src[144:]
	}
}

// q5_KGeneric expands blocks of Q5_K. It reads d and dmin, eight scales and offsets of 6 bits, 32 bytes of highest bits, then
// nibbles as in Q4_K. Codes have 5 bits. Bit k of byte l of the 32 is the highest bit of code 32·k + l. Values are
// d·scale·code − dmin·offset.
func q5_KGeneric(dst []float32, src []byte) {
	for len(src) >= 176 && len(dst) >= 256 {
		b := (*[176]byte)(src)
		d, dmin := block.FloatAt((*[2]byte)(b[0:])), block.FloatAt((*[2]byte)(b[2:]))
		scales, mins := block.K4Scales((*[12]byte)(b[4:]))
		qh := (*[32]byte)(b[16:])
		y, qs := dst[:256], src[48:176]
		for k := 0; k < 8 && len(y) >= 64 && len(qs) >= 32; k += 2 {
			var low, high [32]float32 // the values of all codes, for the low and the upper nibbles
			affine(low[:], d*float32(scales[k]), dmin*float32(mins[k]))
			affine(high[:], d*float32(scales[k+1]), dmin*float32(mins[k+1]))
			out := (*[64]float32)(y)
			for l, q := range (*[32]byte)(qs) {
				bits := qh[l] >> k // bit 0 is for the low nibble, bit 1 for the upper one
				out[l] = low[(q&15)|((bits&1)<<4)]
				out[l+32] = high[(q>>4)|((bits&2)<<3)]
			}
			y, qs = y[64:], qs[32:]
		}
		dst, src = dst[256:], src[176:]
	}
}

// affine sets entry n of values to d·n − m.
func affine(values []float32, d, m float32) {
	for n := range values {
		values[n] = float32(d*float32(n)) - m // the conversion forbids a fused multiply-add
	}
}

// sixBitFloats[n] is n − 32, the value of a Q6_K element before scaling.
var sixBitFloats = tableOf(func(n int) float32 { return float32(n - 32) })

// q6_KGeneric expands blocks of Q6_K, by halves. It reads nibbles, the upper 2 bits of the codes, 16 int8 scales, then d. Values
// are d·scale·(code − 32).
func q6_KGeneric(dst []float32, src []byte) {
	for len(src) >= 210 && len(dst) >= 256 {
		d := block.Float(binary.LittleEndian.Uint16(src[208:]))
		y, ql, qh, sc := dst[:256], src[:128], src[128:192], src[192:208]
		for len(y) >= 128 && len(ql) >= 64 && len(qh) >= 32 && len(sc) >= 8 {
			q6Half((*[128]float32)(y), (*[64]byte)(ql), (*[32]byte)(qh), (*[8]byte)(sc), d)
			y, ql, qh, sc = y[128:], ql[64:], qh[32:], sc[8:]
		}
		dst, src = dst[256:], src[210:]
	}
}

// q6Half sets y to the 128 values of half a block of Q6_K: d·scale·(code − 32). A code has 6 bits. Its lower 4 bits are a
// nibble of ql: the low nibbles are elements 0 to 63, the high nibbles elements 64 to 127. Its upper 2 bits are in qh. Byte l
// has the bits of elements l, l+32, l+64 and l+96, from its lowest bits on. sc has an int8 scale for every 16 elements.
func q6Half(y *[128]float32, ql *[64]byte, qh *[32]byte, sc *[8]byte, d float32) {
	var s [8]float32
	for k, v := range sc {
		s[k] = d * float32(int8(v))
	}
	for l, h := range qh {
		k := l >> 4
		a, b := ql[l], ql[l+32]
		y[l] = s[k] * sixBitFloats[(a&15)|((h&3)<<4)]
		y[l+32] = s[k+2] * sixBitFloats[(b&15)|(((h>>2)&3)<<4)]
		y[l+64] = s[k+4] * sixBitFloats[(a>>4)|(((h>>4)&3)<<4)]
		y[l+96] = s[k+6] * sixBitFloats[(b>>4)|((h>>6)<<4)]
	}
}
