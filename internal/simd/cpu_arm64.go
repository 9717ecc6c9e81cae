package simd

import "golang.org/x/sys/cpu"

// SDOT reports the dot products of ARMv8.2. NEON itself needs no test: every arm64 processor that Go runs on has it.
var SDOT = cpu.ARM64.HasASIMDDP
