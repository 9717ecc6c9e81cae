//go:build !purego && (amd64 || arm64)

package dequant

import "unsafe"

// floatsToAligned returns the number of float32s from the start of dst to the first multiple of 64 bytes. dst need not reach
// that far.
func floatsToAligned(dst []float32) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % 64 / 4)
}

// f32Copy expands F32 on little-endian machines: the stored bytes are the floats.
func f32Copy(dst []float32, src []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), 4*len(dst)), src)
}
