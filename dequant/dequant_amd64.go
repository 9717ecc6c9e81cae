//go:build !purego

package dequant

import "golang.org/x/sys/cpu"

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
