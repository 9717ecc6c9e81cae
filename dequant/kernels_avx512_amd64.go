//go:build !purego

package dequant

// avx512 is the level of AVX-512 with F, BW, VL and DQ.
var avx512 = impl{
	name: "avx512",
}
