package dequant

func q8_0Generic(dst []float32, src []byte) {
	for len(src) >= 34 && len(dst) >= 32 {
		expandInt8s((*[32]float32)(dst), (*[32]byte)(src[2:34]), halfAt((*[2]byte)(src)))
		dst, src = dst[32:], src[34:]
	}
}

// q8_1Generic passes over the block's second half, the sum that dot products use.
func q8_1Generic(dst []float32, src []byte) {
	for len(src) >= 36 && len(dst) >= 32 {
		expandInt8s((*[32]float32)(dst), (*[32]byte)(src[4:36]), halfAt((*[2]byte)(src)))
		dst, src = dst[32:], src[36:]
	}
}

func expandInt8s(y *[32]float32, qs *[32]byte, d float32) {
	for j, q := range qs {
		y[j] = int8Floats[q] * d
	}
}
