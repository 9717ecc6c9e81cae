//go:build !purego

package dot

import "github.com/tensormap/tensormap/layout"

//go:generate go -C ../_asm run ./dot -level AVX2 -out ../dot/avx2_amd64.s -stubs ../dot/avx2_stubs_amd64.go -pkg dot

// avx2 is the level of AVX2 and F16C.
var avx2 = impl{
	name: "avx2",
	quantized: [numTypes]quantized{
		layout.Q4_0:   {assembly(q4_0AVX2), q4_0ManyAVX2},
		layout.Q4_1:   {assembly(q4_1AVX2), q4_1ManyAVX2},
		layout.Q5_0:   {assembly(q5_0AVX2), q5_0ManyAVX2},
		layout.Q5_1:   {assembly(q5_1AVX2), q5_1ManyAVX2},
		layout.Q8_0:   {assembly(q8_0AVX2), q8_0ManyAVX2},
		layout.IQ4_NL: {assembly(iq4_NLAVX2), iq4_NLManyAVX2},
		layout.MXFP4:  {assembly(mxfp4AVX2), mxfp4ManyAVX2},
		layout.Q4_K:   {assembly(q4_KAVX2), q4_KManyAVX2},
		layout.Q5_K:   {assembly(q5_KAVX2), q5_KManyAVX2},
		layout.Q6_K:   {assembly(q6_KAVX2), q6_KManyAVX2},
		layout.Q2_K:   {assembly(q2_KAVX2), q2_KManyAVX2},
		layout.Q3_K:   {assembly(q3_KAVX2), q3_KManyAVX2},
		layout.IQ4_XS: {assembly(iq4_XSAVX2), iq4_XSManyAVX2},
		layout.TQ1_0:  {assembly(tq1_0AVX2), tq1_0ManyAVX2},
		layout.TQ2_0:  {assembly(tq2_0AVX2), tq2_0ManyAVX2},
		layout.NVFP4:  {whole(nvfp4AVX2), nvfp4ManyAVX2},
	},
	plain: [numTypes]plainKernel{
		layout.F32:  f32AVX2,
		layout.F16:  f16AVX2,
		layout.BF16: bf16AVX2,
		layout.I8:   i8AVX2,

		layout.F8_E4M3: f8e4m3AVX2,
		layout.F8_E5M2: f8e5m2AVX2,
	},
	floats:  floatsAVX2,
	blocks:  q8AVX2,
	blocksK: q8KAVX2,
}
