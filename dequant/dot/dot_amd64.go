//go:build !purego

package dot

import "golang.org/x/sys/cpu"

// archLevels returns the levels of this processor.
func archLevels() (list []*impl) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasF16C {
		return nil
	}
	list = append(list, &avx2)
	if x.HasAVXVNNI {
		list = append(list, &avxVNNI)
	}
	if x.HasAVX512F && x.HasAVX512VL && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VNNI {
		list = append(list, &avx512)
	}
	return list
}
