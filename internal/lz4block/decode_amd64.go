//go:build !purego

package lz4block

import "github.com/tensormap/tensormap/internal/simd"

var hasAVX2 = simd.AVX2
