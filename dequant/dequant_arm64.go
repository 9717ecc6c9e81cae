//go:build !purego

package dequant

// archLevels returns the level of NEON, without a test: every arm64 processor that Go runs on has it.
func archLevels() []*impl { return []*impl{&neon} }
