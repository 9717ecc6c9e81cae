package dequant

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/internal/block"
)

// f32Generic sets dst to the little-endian F32s in src.
func f32Generic(dst []float32, src []byte) {
	for len(src) >= 4 && len(dst) >= 1 {
		dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src))
		dst, src = dst[1:], src[4:]
	}
}

// f16Generic sets dst to the values of the F16s in src, which are binary16.
func f16Generic(dst []float32, src []byte) {
	for len(src) >= 2 && len(dst) >= 1 {
		dst[0] = block.Float(binary.LittleEndian.Uint16(src))
		dst, src = dst[1:], src[2:]
	}
}

// bf16Generic sets dst to the values of the BF16s in src, which are the upper halves of float32s. It expands four at a time, and
// then the rest.
func bf16Generic(dst []float32, src []byte) {
	for len(src) >= 8 && len(dst) >= 4 {
		w := binary.LittleEndian.Uint64(src)
		dst[0] = math.Float32frombits(uint32(w) << 16)
		dst[1] = math.Float32frombits(uint32(w) & 0xffff0000)
		dst[2] = math.Float32frombits(uint32(w>>32) << 16)
		dst[3] = math.Float32frombits(uint32(w>>32) & 0xffff0000)
		dst, src = dst[4:], src[8:]
	}
	for len(src) >= 2 && len(dst) >= 1 {
		dst[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src)) << 16)
		dst, src = dst[1:], src[2:]
	}
}

// f64Generic sets dst to the F64s in src, each rounded to float32.
func f64Generic(dst []float32, src []byte) {
	for len(src) >= 8 && len(dst) >= 1 {
		dst[0] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src)))
		dst, src = dst[1:], src[8:]
	}
}

// tableOf returns the table whose entry b is valueOf(b), for every byte b.
func tableOf(valueOf func(b int) float32) (t [256]float32) {
	for b := range t {
		t[b] = valueOf(b)
	}
	return t
}

// smallFloats returns the values of all bytes as codes of n bits: the lowest n bits of a byte, without the bits above. From its
// highest bit on, a code has a sign, an exponent with the given bias, and mantissaBits bits of mantissa. No code is an infinity
// or a NaN.
func smallFloats(n, mantissaBits, bias int) [256]float32 {
	return tableOf(func(b int) float32 {
		magnitude, sign := uint32(b)&(1<<(n-1)-1), (uint32(b)>>(n-1))&1
		// The bits are read with float32's bias of 127, then rescaled. This serves subnormals too.
		f := math.Float32frombits(magnitude<<(23-mantissaBits)) * float32(math.Ldexp(1, 127-bias))
		return math.Float32frombits(math.Float32bits(f) | sign<<31)
	})
}

// withNaN returns t with another value for the given code: the NaN with the given bits.
func withNaN(t [256]float32, code byte, bits uint32) [256]float32 {
	t[code] = math.Float32frombits(bits)
	return t
}

// quietNaN has the bits of a NaN.
const quietNaN = 0x7fc00000

// e4m3Floats are the values of OFP8's E4M3: bias 7, no infinities. Codes 0x7f and 0xff, whose bits
// below the sign are all set, are NaNs.
var e4m3Floats = withNaN(withNaN(smallFloats(8, 3, 7), 0x7f, 0x7ff00000), 0xff, 0xfff00000)

// The FNUZ floats of 8 bits have neither −0 nor infinities. Code 0x80, which would be −0, is their one NaN. Their bias is one
// more than the bias of OFP8's types.
var (
	e4m3fnuzFloats = withNaN(smallFloats(8, 3, 8), 0x80, quietNaN)
	e5m2fnuzFloats = withNaN(smallFloats(8, 2, 16), 0x80, quietNaN)
)

// Every code of OCP MX's floats of 6 bits is a number.
var (
	e2m3Floats = smallFloats(6, 3, 1)
	e3m2Floats = smallFloats(6, 2, 3)
)

// e5m2Floats are the values of OFP8's E5M2, the upper half of a binary16.
var e5m2Floats = tableOf(func(b int) float32 { return block.Float(uint16(b) << 8) })

// e8m0Floats are the values of OCP MX's E8M0, powers of two. 255 is a NaN.
var e8m0Floats = withNaN(tableOf(func(b int) float32 {
	return math.Float32frombits(max(uint32(b)<<23, 1<<22)) // 2⁻¹²⁷ is subnormal
}), 255, quietNaN)

// lookup6 sets dst to values[c] for the codes c of 6 bits in src. Three bytes hold four codes, the first in the lowest bits.
func lookup6(dst []float32, src []byte, values *[256]float32) {
	for len(src) >= 3 && len(dst) >= 4 {
		w := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
		dst[0] = values[w&63]
		dst[1] = values[(w>>6)&63]
		dst[2] = values[(w>>12)&63]
		dst[3] = values[w>>18]
		dst, src = dst[4:], src[3:]
	}
}

// lookup sets dst[i] to values[src[i]], until dst or src ends.
func lookup(dst []float32, src []byte, values *[256]float32) {
	for len(src) >= 8 && len(dst) >= 8 {
		b, y := (*[8]byte)(src), (*[8]float32)(dst)
		for i := range y {
			y[i] = values[b[i]]
		}
		dst, src = dst[8:], src[8:]
	}
	for len(src) >= 1 && len(dst) >= 1 {
		dst[0] = values[src[0]]
		dst, src = dst[1:], src[1:]
	}
}
