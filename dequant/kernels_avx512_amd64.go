//go:build !purego

package dequant

import "github.com/tensormap/tensormap/layout"

//go:generate go run -C _asm ./avx512 -out ../avx512_amd64.s -stubs ../avx512_stubs_amd64.go -pkg dequant
//go:generate go -C _asm run ./fit -level AVX512 -out ../fit_avx512_amd64.s -stubs ../fit_avx512_stubs_amd64.go -pkg dequant

// avx512 is the level of AVX-512 with F, BW, VL and DQ.
var avx512 = impl{
	name: "avx512",
	expand: [numTypes]kernel{
		layout.F32:  {run: f32AVX512, stream: f32AVX512Stream},
		layout.F16:  {run: f16AVX512, stream: f16AVX512Stream},
		layout.BF16: {run: bf16AVX512, stream: bf16AVX512Stream},
		layout.F64:  {run: f64AVX512, stream: f64AVX512Stream},
		layout.I8:   {run: i8AVX512, stream: i8AVX512Stream},
		layout.I16:  {run: i16AVX512, stream: i16AVX512Stream},
		layout.I32:  {run: i32AVX512, stream: i32AVX512Stream},
		layout.I64:  {run: i64AVX512, stream: i64AVX512Stream},
		layout.U8:   {run: u8AVX512, stream: u8AVX512Stream},
		layout.U16:  {run: u16AVX512, stream: u16AVX512Stream},
		layout.U32:  {run: u32AVX512, stream: u32AVX512Stream},
		layout.U64:  {run: u64AVX512, stream: u64AVX512Stream},
		layout.BOOL: {run: boolAVX512, stream: boolAVX512Stream},

		layout.F8_E4M3: {run: f8e4m3AVX512, stream: f8e4m3AVX512Stream},
		layout.F8_E5M2: {run: f8e5m2AVX512, stream: f8e5m2AVX512Stream},

		layout.Q4_0:   {run: q4_0AVX512, stream: q4_0AVX512Stream},
		layout.Q4_1:   {run: q4_1AVX512, stream: q4_1AVX512Stream},
		layout.Q5_0:   {run: q5_0AVX512, stream: q5_0AVX512Stream},
		layout.Q5_1:   {run: q5_1AVX512, stream: q5_1AVX512Stream},
		layout.Q8_0:   {run: q8_0AVX512, stream: q8_0AVX512Stream},
		layout.Q8_1:   {run: q8_1AVX512, stream: q8_1AVX512Stream},
		layout.Q2_K:   {run: q2_KAVX512, stream: q2_KAVX512Stream},
		layout.Q3_K:   {run: q3_KAVX512, stream: q3_KAVX512Stream},
		layout.Q4_K:   {run: q4_KAVX512, stream: q4_KAVX512Stream},
		layout.Q5_K:   {run: q5_KAVX512, stream: q5_KAVX512Stream},
		layout.Q6_K:   {run: q6_KAVX512, stream: q6_KAVX512Stream},
		layout.IQ4_NL: {run: iq4_NLAVX512, stream: iq4_NLAVX512Stream},
		layout.IQ4_XS: {run: iq4_XSAVX512, stream: iq4_XSAVX512Stream},
		layout.MXFP4:  {run: mxfp4AVX512, stream: mxfp4AVX512Stream},
		layout.NVFP4:  {run: nvfp4AVX512, stream: nvfp4AVX512Stream},
		layout.Q8_K:   {run: q8_KAVX512, stream: q8_KAVX512Stream},
		layout.APR_Q4: {run: aprQ4AVX512, stream: aprQ4AVX512Stream},

		layout.IQ2_XXS: {run: iq2_XXSAVX512, stream: iq2_XXSAVX512Stream},
		layout.IQ2_XS:  {run: iq2_XSAVX512, stream: iq2_XSAVX512Stream},
		layout.IQ2_S:   {run: iq2_SAVX512, stream: iq2_SAVX512Stream},
		layout.IQ3_XXS: {run: iq3_XXSAVX512, stream: iq3_XXSAVX512Stream},
		layout.IQ3_S:   {run: iq3_SAVX512, stream: iq3_SAVX512Stream},
		layout.IQ1_S:   {run: iq1_SAVX512, stream: iq1_SAVX512Stream},
		layout.IQ1_M:   {run: iq1_MAVX512, stream: iq1_MAVX512Stream},
		layout.TQ1_0:   {run: tq1_0AVX512, stream: tq1_0AVX512Stream},
		layout.TQ2_0:   {run: tq2_0AVX512, stream: tq2_0AVX512Stream},
		layout.Q1_0:    {run: q1_0AVX512, stream: q1_0AVX512Stream},
		layout.Q2_0:    {run: q2_0AVX512, stream: q2_0AVX512Stream},
	},
	scaled: [numTypes]scaledKernel{
		layout.I8:  {run: i8ScaledAVX512},
		layout.I16: {run: i16ScaledAVX512},
	},
	fit: fitters{affine: fitAffineAVX512, symmetric: fitSymmetricAVX512, byTurns: fitByTurnsAVX512, iq4: fitIQ4AVX512, round: roundAVX512},
	encode: [numTypes]encoder{
		layout.F16:  {run: encodeF16AVX512},
		layout.BF16: {run: encodeBF16AVX512},
	},
	grouped: [numCodes]groupKernel{
		1:                    {run: uint1GroupsAVX512, stream: uint1GroupsAVX512Stream, step: 32},
		2:                    {run: uint2GroupsAVX512, stream: uint2GroupsAVX512Stream, step: 32},
		3:                    {run: uint3GroupsAVX512, stream: uint3GroupsAVX512Stream, step: 32},
		4:                    {run: uint4GroupsAVX512, stream: uint4GroupsAVX512Stream, step: 32, pairs: true},
		5:                    {run: uint5GroupsAVX512, stream: uint5GroupsAVX512Stream, step: 32},
		6:                    {run: uint6GroupsAVX512, stream: uint6GroupsAVX512Stream, step: 32},
		7:                    {run: uint7GroupsAVX512, stream: uint7GroupsAVX512Stream, step: 32},
		8:                    {run: uint8GroupsAVX512, stream: uint8GroupsAVX512Stream, step: 32},
		1 + biased:           {run: uint1BiasedGroupsAVX512, stream: uint1BiasedGroupsAVX512Stream, step: 32},
		2 + biased:           {run: uint2BiasedGroupsAVX512, stream: uint2BiasedGroupsAVX512Stream, step: 32},
		3 + biased:           {run: uint3BiasedGroupsAVX512, stream: uint3BiasedGroupsAVX512Stream, step: 32},
		4 + biased:           {run: uint4BiasedGroupsAVX512, stream: uint4BiasedGroupsAVX512Stream, step: 32, pairs: true},
		5 + biased:           {run: uint5BiasedGroupsAVX512, stream: uint5BiasedGroupsAVX512Stream, step: 32},
		6 + biased:           {run: uint6BiasedGroupsAVX512, stream: uint6BiasedGroupsAVX512Stream, step: 32},
		7 + biased:           {run: uint7BiasedGroupsAVX512, stream: uint7BiasedGroupsAVX512Stream, step: 32},
		8 + biased:           {run: uint8BiasedGroupsAVX512, stream: uint8BiasedGroupsAVX512Stream, step: 32},
		layout.CodeInt8:      {run: int8GroupsAVX512, stream: int8GroupsAVX512Stream, step: 32},
		layout.CodeInt8By127: {run: int8By127GroupsAVX512, stream: int8By127GroupsAVX512Stream, step: 32},
		layout.CodeE4M3:      {run: e4m3GroupsAVX512, stream: e4m3GroupsAVX512Stream, step: 32},
		layout.CodeE5M2:      {run: e5m2GroupsAVX512, stream: e5m2GroupsAVX512Stream, step: 32},
		layout.CodeE2M1:      {run: e2m1GroupsAVX512, stream: e2m1GroupsAVX512Stream, step: 32, pairs: true},
		layout.CodeE2M1Plus:  {run: e2m1PlusGroupsAVX512, stream: e2m1PlusGroupsAVX512Stream, step: 32, pairs: true},
		layout.CodeNF4:       {run: nf4GroupsAVX512, stream: nf4GroupsAVX512Stream, step: 32},
		layout.CodeFP4:       {run: fp4GroupsAVX512, stream: fp4GroupsAVX512Stream, step: 32},
	},
}
