//go:build !purego

package dequant

import (
	"golang.org/x/sys/cpu"

	"github.com/tensormap/tensormap/layout"
)

// The levels of AVX2 with F16C and of AVX-512 with F, BW, VL and DQ.
//
//go:generate go -C _asm run ./avx2 -out ../avx2_amd64.s -pkg dequant
//go:generate go -C _asm run ./fit -level AVX2 -out ../fit_avx2_amd64.s -pkg dequant
//go:generate go -C _asm run ./level -level AVX2 -step 32 -pairs uint4,uint4Biased,e2m1,e2m1Plus -out ../avx2_amd64.go -pkg dequant ../avx2_amd64.s ../fit_avx2_amd64.s
//go:generate go -C _asm run ./avx512 -out ../avx512_amd64.s -pkg dequant
//go:generate go -C _asm run ./fit -level AVX512 -out ../fit_avx512_amd64.s -pkg dequant
//go:generate go -C _asm run ./level -level AVX512 -pairs uint4,uint4Biased,e2m1,e2m1Plus -out ../avx512_amd64.go -pkg dequant ../avx512_amd64.s ../fit_avx512_amd64.s

// archLevels returns the levels of this processor. The higher level presumes the lower one, so
// that its kernels may use VEX-encoded instructions.
func archLevels() []*impl {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasF16C {
		return nil
	}
	l := []*impl{&avx2}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ {
		l = append(l, &avx512)
	}
	return l
}

// stopping returns an encoder that makes most blocks with kernel. It makes those before which kernel stops
// with the portable loop.
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
