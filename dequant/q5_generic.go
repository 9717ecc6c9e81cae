package dequant

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/internal/block"
)

// fiveBitFloats[n] is n − 16, the value of a Q5_0 element before scaling.
var fiveBitFloats = func() (t [32]float32) {
	for n := range t {
		t[n] = float32(n - 16)
	}
	return t
}()

func q5_0Generic(dst []float32, src []byte) {
	for len(src) >= 22 && len(dst) >= 32 {
		b, y := (*[22]byte)(src), (*[32]float32)(dst)
		d := block.FloatAt((*[2]byte)(b[0:]))
		high := binary.LittleEndian.Uint32(b[2:6])
		for j, q := range (*[16]byte)(b[6:]) {
			y[j] = fiveBitFloats[uint32(q&15)|high<<4&16] * d
			y[j+16] = fiveBitFloats[uint32(q>>4)|high>>12&16] * d
			high >>= 1
		}
		dst, src = dst[32:], src[22:]
	}
}

func q5_1Generic(dst []float32, src []byte) {
	for len(src) >= 24 && len(dst) >= 32 {
		b, y := (*[24]byte)(src), (*[32]float32)(dst)
		d, m := block.FloatAt((*[2]byte)(b[0:])), block.FloatAt((*[2]byte)(b[2:]))
		high := binary.LittleEndian.Uint32(b[4:8])
		for j, q := range (*[16]byte)(b[8:]) {
			y[j] = float32(float32(int32(uint32(q&15)|high<<4&16))*d) + m
			y[j+16] = float32(float32(int32(uint32(q>>4)|high>>12&16))*d) + m
			high >>= 1
		}
		dst, src = dst[32:], src[24:]
	}
}
