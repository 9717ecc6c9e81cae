//go:build !purego

package dot

import (
	"github.com/tensormap/tensormap/dequant/internal/block"
	"github.com/tensormap/tensormap/layout"
	"golang.org/x/sys/cpu"
)

// neon is the level of NEON with SDOT.
var neon = impl{
	name: "neon",
	quantized: [numTypes]quantized{
		layout.Q4_0:   {assembly(q4_0NEON), q4_0ManyNEON},
		layout.Q4_1:   {assembly(q4_1NEON), q4_1ManyNEON},
		layout.Q5_0:   {assembly(q5_0NEON), q5_0ManyNEON},
		layout.Q5_1:   {assembly(q5_1NEON), q5_1ManyNEON},
		layout.Q8_0:   {assembly(q8_0NEON), q8_0ManyNEON},
		layout.IQ4_NL: {assembly(iq4_NLNEON), iq4_NLManyNEON},
		layout.MXFP4:  {assembly(mxfp4NEON), mxfp4ManyNEON},
		layout.NVFP4:  {whole(nvfp4NEON), nvfp4ManyNEON},
		layout.Q2_K:   {assembly(q2_KNEON), q2_KManyNEON},
		layout.Q3_K:   {assembly(q3_KNEON), q3_KManyNEON},
		layout.Q4_K:   {assembly(q4_KNEON), q4_KManyNEON},
		layout.Q5_K:   {assembly(q5_KNEON), q5_KManyNEON},
		layout.Q6_K:   {assembly(q6_KNEON), q6_KManyNEON},
		layout.IQ4_XS: {assembly(iq4_XSNEON), iq4_XSManyNEON},
		layout.TQ1_0:  {assembly(tq1_0NEON), tq1_0ManyNEON},
		layout.TQ2_0:  {assembly(tq2_0NEON), tq2_0ManyNEON},
	},
	plain: [numTypes]plainKernel{
		layout.F32:     f32NEON,
		layout.F16:     f16NEON,
		layout.BF16:    bf16NEON,
		layout.I8:      i8NEON,
		layout.F8_E4M3: f8e4m3NEON,
		layout.F8_E5M2: f8e5m2NEON,
	},
	floats: floatsNEON,
}

// archLevels returns the levels of this processor.
func archLevels() []*impl {
	if !cpu.ARM64.HasASIMDDP {
		return nil
	}
	return []*impl{&neon}
}

// The codes that nibbles stand for, and the tables that spread bits.
var neonIQ4, neonFP4, neonBits = block.IQ4, block.FP4, block.NEONBits

// neonCrumbs are the shifts that bring two bits each to the bottom of eight words.
var neonCrumbs = [8]int16{0, -2, -4, -6, -8, -10, -12, -14}

// neonPowers move the digits of four fractions in base three.
var neonPowers = [16]uint8{1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27}
