//go:build !purego

package dot

import (
	"github.com/tensormap/tensormap/layout"
	"golang.org/x/sys/cpu"
)

// neon is the level of NEON with SDOT. The portable loops unpack codes for it.
var neon = impl{
	name:      "neon",
	quantized: kernelsWith(func(sums *[16]int32, q, y *[groupElems]int8) { sumsNEON(&sums[0], &q[0], &y[0]) }),
	plain:     [numTypes]plainKernel{layout.F32: f32NEON},
	floats:    floatsNEON,
}

// archLevels returns the levels of this processor.
func archLevels() []*impl {
	if !cpu.ARM64.HasASIMDDP {
		return nil
	}
	return []*impl{&neon}
}

// sumsNEON does what sumsGeneric does.
//
//go:noescape
func sumsNEON(sums *int32, q, y *int8)

// floatsNEON does what floatsGeneric does.
//
//go:noescape
func floatsNEON(dst, rows, x []float32)

// f32NEON does what floatsNEON does with the bytes of rows.
//
//go:noescape
func f32NEON(dst []float32, rows []byte, x []float32)
