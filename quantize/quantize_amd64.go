//go:build !purego

package quantize

import (
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// The levels of AVX2 with F16C and of AVX-512 with F, BW, VL and DQ.
//
//go:generate go -C _asm run . -level AVX2 -out ../avx2_amd64.s -pkg quantize
//go:generate go -C ../dequant/_asm run ./level -level AVX2 -step 32 -out ../../quantize/avx2_amd64.go -pkg quantize ../../quantize/avx2_amd64.s
//go:generate go -C _asm run . -level AVX512 -out ../avx512_amd64.s -pkg quantize
//go:generate go -C ../dequant/_asm run ./level -level AVX512 -step 64 -out ../../quantize/avx512_amd64.go -pkg quantize ../../quantize/avx512_amd64.s

// archLevels returns the levels of this processor. The higher level presumes the lower one, so
// that its kernels may use VEX-encoded instructions.
func archLevels() []*impl { return simd.Levels(&avx2, &avx512) }

// stopping returns an encoder that calls kernel, which returns the number of blocks that it has encoded. The block that
// kernel stops at is encoded by the portable loop.
func stopping(d layout.DType, kernel func(dst []byte, src []float32) (blocks int)) func(dst []byte, src []float32) {
	elems, size := d.BlockElems(), d.BlockBytes()
	return func(dst []byte, src []float32) {
		for len(src) > 0 {
			n := kernel(dst, src)
			dst, src = dst[n*size:], src[n*elems:]
			if len(src) > 0 {
				generic.encode[d].run(dst[:size], src[:elems])
				dst, src = dst[size:], src[elems:]
			}
		}
	}
}
