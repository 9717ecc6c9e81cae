//go:build !purego

package dequant

import "github.com/tensormap/tensormap/internal/simd"

// The levels of AVX2 with F16C and of AVX-512 with F, BW, VL and DQ.
//
//go:generate go -C _asm run ./avx2 -out ../avx2_amd64.s -pkg dequant
//go:generate go -C _asm run ./level -level AVX2 -step 32 -pairs uint4,uint4Biased,e2m1,e2m1Plus -out ../avx2_amd64.go -pkg dequant ../avx2_amd64.s
//go:generate go -C _asm run ./avx512 -out ../avx512_amd64.s -pkg dequant
//go:generate go -C _asm run ./level -level AVX512 -pairs uint4,uint4Biased,e2m1,e2m1Plus -out ../avx512_amd64.go -pkg dequant ../avx512_amd64.s

// archLevels returns the levels that this processor can run, the best last. simd.AVX512 presumes simd.AVX2, so kernels of
// AVX-512 may use VEX-encoded instructions.
func archLevels() []*impl { return simd.Levels(&avx2, &avx512) }
