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

// assembly returns the kernel that f is. Assembly knows a group by its first code.
func assembly(f func(dst []float32, rows []byte, x *int8, blocks int)) quantizedKernel {
	return func(dst []float32, rows []byte, x []group, blocks int) { f(dst, rows, &x[0].q[0], blocks) }
}

// whole returns the kernel that f is for rows of NVFP4 in whole groups. Others are left to the portable loop.
func whole(f func(dst []float32, rows []byte, x *int8, blocks int)) quantizedKernel {
	return func(dst []float32, rows []byte, x []group, blocks int) {
		if blocks%4 == 0 {
			f(dst, rows, &x[0].q[0], blocks/4)
		} else {
			nvfp4Generic(dst, rows, x, blocks)
		}
	}
}
