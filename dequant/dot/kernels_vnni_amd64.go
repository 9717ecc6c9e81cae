//go:build !purego

package dot

import "github.com/tensormap/tensormap/layout"

//go:generate go -C ../_asm run ./dot -level AVXVNNI -out ../dot/avxvnni_amd64.s -stubs ../dot/avxvnni_stubs_amd64.go -pkg dot
//go:generate go -C ../_asm run ./vex ../dot/avxvnni_amd64.s
//go:generate go -C ../_asm run ./dot -level AVX512 -out ../dot/avx512_amd64.s -stubs ../dot/avx512_stubs_amd64.go -pkg dot

// avxVNNI is the level of AVX-VNNI over avx2.
var avxVNNI = impl{
	name: "avxvnni",
	quantized: [numTypes]quantized{
		layout.Q4_0:   {one: assembly(q4_0AVXVNNI)},
		layout.Q4_1:   {one: assembly(q4_1AVXVNNI)},
		layout.Q5_0:   {one: assembly(q5_0AVXVNNI)},
		layout.Q5_1:   {one: assembly(q5_1AVXVNNI)},
		layout.Q8_0:   {one: assembly(q8_0AVXVNNI)},
		layout.IQ4_NL: {one: assembly(iq4_NLAVXVNNI)},
		layout.MXFP4:  {one: assembly(mxfp4AVXVNNI)},
		layout.Q4_K:   {one: assembly(q4_KAVXVNNI)},
		layout.Q5_K:   {one: assembly(q5_KAVXVNNI)},
		layout.Q6_K:   {one: assembly(q6_KAVXVNNI)},
		layout.Q2_K:   {one: assembly(q2_KAVXVNNI)},
		layout.Q3_K:   {one: assembly(q3_KAVXVNNI)},
		layout.IQ4_XS: {one: assembly(iq4_XSAVXVNNI)},
		layout.TQ1_0:  {one: assembly(tq1_0AVXVNNI)},
		layout.TQ2_0:  {one: assembly(tq2_0AVXVNNI)},
		layout.NVFP4:  {one: whole(nvfp4AVXVNNI)},
	},
}

// avx512 is the level of AVX-512 F, VL, BW, DQ and VNNI, over avx2.
var avx512 = impl{
	name: "avx512",
	quantized: [numTypes]quantized{
		layout.Q4_0:   {assembly(q4_0AVX512), q4_0ManyAVX512},
		layout.Q4_1:   {assembly(q4_1AVX512), q4_1ManyAVX512},
		layout.Q5_0:   {assembly(q5_0AVX512), q5_0ManyAVX512},
		layout.Q5_1:   {assembly(q5_1AVX512), q5_1ManyAVX512},
		layout.Q8_0:   {assembly(q8_0AVX512), q8_0ManyAVX512},
		layout.IQ4_NL: {assembly(iq4_NLAVX512), iq4_NLManyAVX512},
		layout.MXFP4:  {assembly(mxfp4AVX512), mxfp4ManyAVX512},
		layout.Q4_K:   {assembly(q4_KAVX512), q4_KManyAVX512},
		layout.Q5_K:   {assembly(q5_KAVX512), q5_KManyAVX512},
		layout.Q6_K:   {assembly(q6_KAVX512), q6_KManyAVX512},
		layout.Q2_K:   {assembly(q2_KAVX512), q2_KManyAVX512},
		layout.Q3_K:   {assembly(q3_KAVX512), q3_KManyAVX512},
		layout.IQ4_XS: {assembly(iq4_XSAVX512), iq4_XSManyAVX512},
		layout.TQ1_0:  {assembly(tq1_0AVX512), tq1_0ManyAVX512},
		layout.TQ2_0:  {assembly(tq2_0AVX512), tq2_0ManyAVX512},
		layout.NVFP4:  {whole(nvfp4AVX512), nvfp4ManyAVX512},
	},
	plain: [numTypes]plainKernel{
		layout.F32:  f32AVX512,
		layout.F16:  f16AVX512,
		layout.BF16: bf16AVX512,
		layout.I8:   i8AVX512,
	},
	floats: floatsAVX512,
}
