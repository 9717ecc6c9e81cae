//go:build !purego

package moments

import "github.com/tensormap/tensormap/internal/simd"

// The levels of AVX2 and of AVX-512 with F and DQ.
//
//go:generate go -C ../../quantize/_asm run . -moments -level AVX2 -out ../../internal/moments/avx2_amd64.s -pkg moments
//go:generate go -C ../../quantize/_asm run . -moments -level AVX512 -out ../../internal/moments/avx512_amd64.s -pkg moments

// archLevels returns the levels of this processor.
func archLevels() []level {
	return simd.Levels(level{"avx2", powersAVX2, countAVX2, pairsAVX2}, level{"avx512", powersAVX512, countAVX512, pairsAVX512})
}

//go:noescape
func powersAVX2(sums *[4][lanes]float64, least, most *[16]float32, zeros *[16]int32, x []float32, pivot float64)

//go:noescape
func countAVX2(sums *[4][lanes]float64, least, most *[16]float32, zeros *[16]int32, x []float32, pivot float64, codes *Codes)

//go:noescape
func pairsAVX2(sums *[4][lanes]float64, most *[lanes]float64, differing, exceeding *[lanes]int64, a, b []float32, rel float64)

//go:noescape
func powersAVX512(sums *[4][lanes]float64, least, most *[16]float32, zeros *[16]int32, x []float32, pivot float64)

//go:noescape
func countAVX512(sums *[4][lanes]float64, least, most *[16]float32, zeros *[16]int32, x []float32, pivot float64, codes *Codes)

//go:noescape
func pairsAVX512(sums *[4][lanes]float64, most *[lanes]float64, differing, exceeding *[lanes]int64, a, b []float32, rel float64)
