package dequant

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/dequant/internal/block"
)

func f32Generic(dst []float32, src []byte) {
	for len(src) >= 4 && len(dst) >= 1 {
		dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src))
		dst, src = dst[1:], src[4:]
	}
}

func f16Generic(dst []float32, src []byte) {
	for len(src) >= 8 && len(dst) >= 4 {
		w := binary.LittleEndian.Uint64(src)
		dst[0] = block.Float(uint16(w))
		dst[1] = block.Float(uint16(w >> 16))
		dst[2] = block.Float(uint16(w >> 32))
		dst[3] = block.Float(uint16(w >> 48))
		dst, src = dst[4:], src[8:]
	}
	for len(src) >= 2 && len(dst) >= 1 {
		dst[0] = block.Float(binary.LittleEndian.Uint16(src))
		dst, src = dst[1:], src[2:]
	}
}

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

func f64Generic(dst []float32, src []byte) {
	for len(src) >= 8 && len(dst) >= 1 {
		dst[0] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src)))
		dst, src = dst[1:], src[8:]
	}
}

// e4m3Floats are the values of OFP8's E4M3: bias 7, no infinities. All bits but the sign set are a
// NaN.
var e4m3Floats = func() (t [256]float32) {
	for b := range t {
		x := uint32(b&0x7f) << 20
		f := math.Float32bits(math.Float32frombits(x) * 0x1p120)
		if b&0x7f == 0x7f {
			f = x | 0x7f800000
		}
		t[b] = math.Float32frombits(f | uint32(b&0x80)<<24)
	}
	return t
}()

// e5m2Floats are the values of OFP8's E5M2, the upper half of a binary16.
var e5m2Floats = func() (t [256]float32) {
	for b := range t {
		t[b] = block.Float(uint16(b) << 8)
	}
	return t
}()

// e8m0Floats are the values of OCP MX's E8M0, powers of two. 255 is a NaN.
var e8m0Floats = func() (t [256]float32) {
	for b := range t {
		t[b] = math.Float32frombits(max(uint32(b)<<23, 1<<22)) // 2⁻¹²⁷ is subnormal
	}
	t[255] = math.Float32frombits(0x7fc00000)
	return t
}()

func f8e4m3Generic(dst []float32, src []byte) { lookup(dst, src, &e4m3Floats) }
func f8e5m2Generic(dst []float32, src []byte) { lookup(dst, src, &e5m2Floats) }
func f8e8m0Generic(dst []float32, src []byte) { lookup(dst, src, &e8m0Floats) }

// lookup expands a type of one byte by a table of all its values.
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
