//go:build !purego && (amd64 || arm64)

package dequant

import "unsafe"

// unaligned is the number of elements before the first that lies on a multiple of 64
// bytes, whether or not dst reaches that far.
func unaligned(dst []float32) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % 64 / 4)
}

// f32Copy serves F32 on little-endian machines, where the stored bytes are the floats.
func f32Copy(dst []float32, src []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), 4*len(dst)), src)
}
