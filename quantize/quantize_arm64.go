//go:build !purego

package quantize

// archLevels needs no test: every arm64 processor that Go runs on has NEON, as ARMv8.0 has it.
func archLevels() []*impl { return []*impl{&neon} }
