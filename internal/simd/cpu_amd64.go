package simd

import "golang.org/x/sys/cpu"

// The instructions that kernels are written for, and whether this processor has them. Each presumes the first.
var (
	// AVX2 is AVX2 with F16C.
	AVX2    = cpu.X86.HasAVX2 && cpu.X86.HasF16C
	AVXVNNI = AVX2 && cpu.X86.HasAVXVNNI
	// AVX512 is AVX-512 F, BW, VL and DQ.
	AVX512     = AVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ
	AVX512VNNI = AVX512 && cpu.X86.HasAVX512VNNI
)

// Levels returns the levels of AVX2 and AVX-512 that this processor can run, the best last.
func Levels[L any](avx2, avx512 L) (levels []L) {
	if AVX2 {
		levels = append(levels, avx2)
	}
	if AVX512 {
		levels = append(levels, avx512)
	}
	return levels
}
