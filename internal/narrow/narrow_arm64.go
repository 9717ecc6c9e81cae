//go:build !purego

package narrow

// archLevels needs no test: every arm64 processor that Go runs on has NEON, as ARMv8.0 has it.
func archLevels() []level { return []level{{"neon", kernel{f16NEON, 16}, kernel{bf16NEON, 16}}} }

//go:noescape
func f16NEON(dst []byte, src []float32)

//go:noescape
func bf16NEON(dst []byte, src []float32)
