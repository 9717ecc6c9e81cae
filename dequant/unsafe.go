//go:build !purego && (amd64 || arm64)

package dequant

import "unsafe"

// unaligned returns the number of elements before the first that lies on a multiple of 64 bytes,
// even if dst does not reach that far.
func unaligned(dst []float32) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % 64 / 4)
}

// f32Copy expands F32 on little-endian machines: the stored bytes are the floats.
func f32Copy(dst []float32, src []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), 4*len(dst)), src)
}
