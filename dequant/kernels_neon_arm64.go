//go:build !purego

package dequant

import "github.com/tensormap/tensormap/layout"

// neon is the level of Advanced SIMD as ARMv8.0 has it.
var neon = impl{
	name: "neon",
	expand: [numTypes]kernel{
		layout.F32: {run: f32Copy},
	},
}
