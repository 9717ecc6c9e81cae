//go:build !purego

package dequant

import "github.com/tensormap/tensormap/layout"

//go:generate go -C _asm run ./avx2 -out ../avx2_amd64.s -stubs ../avx2_stubs_amd64.go -pkg dequant
//go:generate go -C _asm run ./fit -level AVX2 -out ../fit_avx2_amd64.s -stubs ../fit_avx2_stubs_amd64.go -pkg dequant

// avx2 is the level of AVX2 and F16C. Its kernels of plain numbers take 32 at a time.
var avx2 = impl{
	name: "avx2",
	expand: [numTypes]kernel{
		layout.F32:  {run: f32Copy},
		layout.F16:  {run: f16AVX2, stream: f16AVX2Stream, step: 32},
		layout.BF16: {run: bf16AVX2, stream: bf16AVX2Stream, step: 32},
		layout.F64:  {run: f64AVX2, stream: f64AVX2Stream, step: 32},
		layout.I8:   {run: i8AVX2, stream: i8AVX2Stream, step: 32},
		layout.I16:  {run: i16AVX2, stream: i16AVX2Stream, step: 32},
		layout.I32:  {run: i32AVX2, stream: i32AVX2Stream, step: 32},
		layout.I64:  {run: i64AVX2, stream: i64AVX2Stream, step: 32},
		layout.U8:   {run: u8AVX2, stream: u8AVX2Stream, step: 32},
		layout.U16:  {run: u16AVX2, stream: u16AVX2Stream, step: 32},
		layout.U32:  {run: u32AVX2, stream: u32AVX2Stream, step: 32},
		layout.U64:  {run: u64AVX2, stream: u64AVX2Stream, step: 32},
		layout.BOOL: {run: boolAVX2, stream: boolAVX2Stream, step: 32},

		layout.F8_E4M3: {run: f8e4m3AVX2, stream: f8e4m3AVX2Stream, step: 32},
		layout.F8_E5M2: {run: f8e5m2AVX2, stream: f8e5m2AVX2Stream, step: 32},

		layout.Q4_0:   {run: q4_0AVX2, stream: q4_0AVX2Stream},
		layout.Q4_1:   {run: q4_1AVX2, stream: q4_1AVX2Stream},
		layout.Q5_0:   {run: q5_0AVX2, stream: q5_0AVX2Stream},
		layout.Q5_1:   {run: q5_1AVX2, stream: q5_1AVX2Stream},
		layout.Q8_0:   {run: q8_0AVX2, stream: q8_0AVX2Stream},
		layout.Q8_1:   {run: q8_1AVX2, stream: q8_1AVX2Stream},
		layout.Q2_K:   {run: q2_KAVX2, stream: q2_KAVX2Stream},
		layout.Q3_K:   {run: q3_KAVX2, stream: q3_KAVX2Stream},
		layout.Q4_K:   {run: q4_KAVX2, stream: q4_KAVX2Stream},
		layout.Q5_K:   {run: q5_KAVX2, stream: q5_KAVX2Stream},
		layout.Q6_K:   {run: q6_KAVX2, stream: q6_KAVX2Stream},
		layout.IQ4_NL: {run: iq4_NLAVX2, stream: iq4_NLAVX2Stream},
		layout.IQ4_XS: {run: iq4_XSAVX2, stream: iq4_XSAVX2Stream},
		layout.MXFP4:  {run: mxfp4AVX2, stream: mxfp4AVX2Stream},
		layout.NVFP4:  {run: nvfp4AVX2, stream: nvfp4AVX2Stream},
		layout.Q8_K:   {run: q8_KAVX2, stream: q8_KAVX2Stream},
		layout.APR_Q4: {run: aprQ4AVX2, stream: aprQ4AVX2Stream},

		layout.IQ2_XXS: {run: iq2_XXSAVX2, stream: iq2_XXSAVX2Stream},
		layout.IQ2_XS:  {run: iq2_XSAVX2, stream: iq2_XSAVX2Stream},
		layout.IQ2_S:   {run: iq2_SAVX2, stream: iq2_SAVX2Stream},
		layout.IQ3_XXS: {run: iq3_XXSAVX2, stream: iq3_XXSAVX2Stream},
		layout.IQ3_S:   {run: iq3_SAVX2, stream: iq3_SAVX2Stream},
		layout.IQ1_S:   {run: iq1_SAVX2, stream: iq1_SAVX2Stream},
		layout.IQ1_M:   {run: iq1_MAVX2, stream: iq1_MAVX2Stream},
		layout.TQ1_0:   {run: tq1_0AVX2, stream: tq1_0AVX2Stream},
		layout.TQ2_0:   {run: tq2_0AVX2, stream: tq2_0AVX2Stream},
		layout.Q1_0:    {run: q1_0AVX2, stream: q1_0AVX2Stream},
		layout.Q2_0:    {run: q2_0AVX2, stream: q2_0AVX2Stream},
	},
	scaled: [numTypes]scaledKernel{
		layout.I8:  {run: i8ScaledAVX2, step: 32},
		layout.I16: {run: i16ScaledAVX2, step: 32},
	},
	fit: fitters{affine: fitAffineAVX2, symmetric: fitSymmetricAVX2, byTurns: fitByTurnsAVX2, iq4: fitIQ4AVX2, round: roundAVX2},
	encode: [numTypes]encoder{
		layout.F16:  {run: encodeF16AVX2, step: 32},
		layout.BF16: {run: encodeBF16AVX2, step: 32},
		layout.Q4_0: {run: stopping(layout.Q4_0, encodeQ4_0AVX2)},
		layout.Q4_1: {run: stopping(layout.Q4_1, encodeQ4_1AVX2)},
		layout.Q5_0: {run: stopping(layout.Q5_0, encodeQ5_0AVX2)},
		layout.Q5_1: {run: stopping(layout.Q5_1, encodeQ5_1AVX2)},
		layout.Q8_0: {run: stopping(layout.Q8_0, encodeQ8_0AVX2)},

		layout.MXFP4: {run: stopping(layout.MXFP4, encodeMXFP4AVX2)},
	},
	grouped: [numCodes]groupKernel{
		1:                    {run: uint1GroupsAVX2, stream: uint1GroupsAVX2Stream, step: 32},
		2:                    {run: uint2GroupsAVX2, stream: uint2GroupsAVX2Stream, step: 32},
		3:                    {run: uint3GroupsAVX2, stream: uint3GroupsAVX2Stream, step: 32},
		4:                    {run: uint4GroupsAVX2, stream: uint4GroupsAVX2Stream, step: 32, pairs: true},
		5:                    {run: uint5GroupsAVX2, stream: uint5GroupsAVX2Stream, step: 32},
		6:                    {run: uint6GroupsAVX2, stream: uint6GroupsAVX2Stream, step: 32},
		7:                    {run: uint7GroupsAVX2, stream: uint7GroupsAVX2Stream, step: 32},
		8:                    {run: uint8GroupsAVX2, stream: uint8GroupsAVX2Stream, step: 32},
		1 + biased:           {run: uint1BiasedGroupsAVX2, stream: uint1BiasedGroupsAVX2Stream, step: 32},
		2 + biased:           {run: uint2BiasedGroupsAVX2, stream: uint2BiasedGroupsAVX2Stream, step: 32},
		3 + biased:           {run: uint3BiasedGroupsAVX2, stream: uint3BiasedGroupsAVX2Stream, step: 32},
		4 + biased:           {run: uint4BiasedGroupsAVX2, stream: uint4BiasedGroupsAVX2Stream, step: 32, pairs: true},
		5 + biased:           {run: uint5BiasedGroupsAVX2, stream: uint5BiasedGroupsAVX2Stream, step: 32},
		6 + biased:           {run: uint6BiasedGroupsAVX2, stream: uint6BiasedGroupsAVX2Stream, step: 32},
		7 + biased:           {run: uint7BiasedGroupsAVX2, stream: uint7BiasedGroupsAVX2Stream, step: 32},
		8 + biased:           {run: uint8BiasedGroupsAVX2, stream: uint8BiasedGroupsAVX2Stream, step: 32},
		layout.CodeInt8:      {run: int8GroupsAVX2, stream: int8GroupsAVX2Stream, step: 32},
		layout.CodeInt8By127: {run: int8By127GroupsAVX2, stream: int8By127GroupsAVX2Stream, step: 32},
		layout.CodeE4M3:      {run: e4m3GroupsAVX2, stream: e4m3GroupsAVX2Stream, step: 32},
		layout.CodeE5M2:      {run: e5m2GroupsAVX2, stream: e5m2GroupsAVX2Stream, step: 32},
		layout.CodeE2M1:      {run: e2m1GroupsAVX2, stream: e2m1GroupsAVX2Stream, step: 32, pairs: true},
		layout.CodeE2M1Plus:  {run: e2m1PlusGroupsAVX2, stream: e2m1PlusGroupsAVX2Stream, step: 32, pairs: true},
		layout.CodeNF4:       {run: nf4GroupsAVX2, stream: nf4GroupsAVX2Stream, step: 32},
		layout.CodeFP4:       {run: fp4GroupsAVX2, stream: fp4GroupsAVX2Stream, step: 32},
	},
	transpose: transposer{words: transposeWordsAVX2, nibbles: transposeNibblesAVX2},
	each:      rescaleEachAVX2,
	permuted:  [9]permutedKernel{2: permuted2AVX2, 3: permuted3AVX2, 4: permuted4AVX2, 8: permuted8AVX2},
}

// stopping returns an encoder that makes most blocks with kernel. It makes those before which kernel stops
// with the portable loop.
func stopping(d layout.DType, kernel func(dst []byte, src []float32) (blocks int)) func(dst []byte, src []float32) {
	elems, size := d.BlockElems(), d.BlockBytes()
	return func(dst []byte, src []float32) {
		for len(src) > 0 {
			n := kernel(dst, src)
			dst, src = dst[n*size:], src[n*elems:]
			if len(src) > 0 {
				generic.encode[d].run(dst[:size], src[:elems])
				dst, src = dst[size:], src[elems:]
			}
		}
	}
}
