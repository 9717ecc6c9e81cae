package dequant

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/internal/block"
)

func q8_0Generic(dst []float32, src []byte) {
	for len(src) >= 34 && len(dst) >= 32 {
		expandInt8s((*[32]float32)(dst), (*[32]byte)(src[2:34]), block.FloatAt((*[2]byte)(src)))
		dst, src = dst[32:], src[34:]
	}
}

// q8_1Generic skips the block's second half, the sum that dot products use.
func q8_1Generic(dst []float32, src []byte) {
	for len(src) >= 36 && len(dst) >= 32 {
		expandInt8s((*[32]float32)(dst), (*[32]byte)(src[4:36]), block.FloatAt((*[2]byte)(src)))
		dst, src = dst[32:], src[36:]
	}
}

// q8_KGeneric reads a binary32 scale and the elements. It skips sums of them that dot products use.
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
