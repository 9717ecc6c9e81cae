//go:build purego || !(amd64 || arm64)

package dequant

// archLevels returns nil: without assembly there is the portable level only.
func archLevels() []*impl { return nil }

// unaligned returns 0: only stream kernels ask, and there are none here.
func unaligned([]float32) int { return 0 }
