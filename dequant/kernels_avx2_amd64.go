//go:build !purego

package dequant

import "github.com/tensormap/tensormap/layout"

// avx2 is the level of AVX2 and F16C.
var avx2 = impl{
	name: "avx2",
	expand: [numTypes]kernel{
		layout.F32: {run: f32Copy},
	},
}
