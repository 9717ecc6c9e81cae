//go:build !purego

package narrow

import "github.com/tensormap/tensormap/internal/simd"

// The levels of AVX2 with F16C and of AVX-512 with F, BW, VL and DQ.
//
//go:generate go -C ../../quantize/_asm run . -narrow -level AVX2 -out ../../internal/narrow/avx2_amd64.s -pkg narrow
//go:generate go -C ../../quantize/_asm run . -narrow -level AVX512 -out ../../internal/narrow/avx512_amd64.s -pkg narrow

// archLevels returns the levels of this processor.
func archLevels() []level {
	return simd.Levels(
		level{"avx2", kernel{f16AVX2, 32}, kernel{bf16AVX2, 32}},
		level{"avx512", kernel{f16AVX512, 64}, kernel{bf16AVX512, 64}})
}

//go:noescape
func f16AVX2(dst []byte, src []float32)

//go:noescape
func bf16AVX2(dst []byte, src []float32)

//go:noescape
func f16AVX512(dst []byte, src []float32)

//go:noescape
func bf16AVX512(dst []byte, src []float32)
