//go:build purego || !(amd64 || arm64)

package dequant

// archLevels returns nil: without assembly there is the portable level only.
func archLevels() []*impl { return nil }

// floatsToAligned returns 0. Elsewhere it returns how many float32s lie before an aligned address, which only stream
// kernels want.
func floatsToAligned([]float32) int { return 0 }
