//go:build !purego

package dot

import "github.com/tensormap/tensormap/internal/simd"

// The levels of AVX2 with F16C; of AVX-VNNI over it; and of AVX-512 F, VL, BW, DQ and VNNI, over AVX2 too.
//
//go:generate go -C ../_asm run ./dot -level AVX2 -out ../dot/avx2_amd64.s -pkg dot
//go:generate go -C ../_asm run ./level -level AVX2 -out ../dot/avx2_amd64.go -pkg dot ../dot/avx2_amd64.s
//go:generate go -C ../_asm run ./dot -level AVXVNNI -out ../dot/avxvnni_amd64.s -pkg dot
//go:generate go -C ../_asm run ./vex ../dot/avxvnni_amd64.s
//go:generate go -C ../_asm run ./level -level AVXVNNI -out ../dot/avxvnni_amd64.go -pkg dot ../dot/avxvnni_amd64.s
//go:generate go -C ../_asm run ./dot -level AVX512 -out ../dot/avx512_amd64.s -pkg dot
//go:generate go -C ../_asm run ./level -level AVX512 -out ../dot/avx512_amd64.go -pkg dot ../dot/avx512_amd64.s

// archLevels returns the levels that this processor can run, the best last.
func archLevels() (list []*impl) {
	if simd.AVX2 {
		list = append(list, &avx2)
	}
	if simd.AVXVNNI {
		list = append(list, &avxvnni)
	}
	if simd.AVX512VNNI {
		list = append(list, &avx512)
	}
	return list
}
