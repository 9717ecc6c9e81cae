package dequant

import "github.com/tensormap/tensormap/layout"

// generic is the portable level. It serves every type that the package supports.
var generic = impl{
	name: "generic",
	expand: [numTypes]kernel{
		layout.F32:  {run: f32Generic},
		layout.F16:  {run: f16Generic},
		layout.BF16: {run: bf16Generic},
		layout.F64:  {run: f64Generic},
		layout.I8:   {run: valuesIn(&int8Floats, lookup)},
		layout.I16:  {run: integers16[int16]},
		layout.I32:  {run: integers32[int32]},
		layout.I64:  {run: i64Generic},
		layout.U8:   {run: valuesIn(&byteFloats, lookup)},
		layout.U16:  {run: integers16[uint16]},
		layout.U32:  {run: integers32[uint32]},
		layout.U64:  {run: u64Generic},
		layout.BOOL: {run: valuesIn(&boolFloats, lookup)},

		layout.F8_E4M3: {run: valuesIn(&e4m3Floats, lookup)},
		layout.F8_E5M2: {run: valuesIn(&e5m2Floats, lookup)},
		layout.F8_E8M0: {run: valuesIn(&e8m0Floats, lookup)},
		layout.F6_E2M3: {run: valuesIn(&e2m3Floats, lookup6)},
		layout.F6_E3M2: {run: valuesIn(&e3m2Floats, lookup6)},
		layout.F4:      {run: valuesIn(codeValues[layout.CodeE2M1], unpackLowFirst)},

		layout.F8_E4M3FNUZ: {run: valuesIn(&e4m3fnuzFloats, lookup)},
		layout.F8_E5M2FNUZ: {run: valuesIn(&e5m2fnuzFloats, lookup)},

		layout.Q4_0:   {run: q4_0Generic},
		layout.Q4_1:   {run: q4_1Generic},
		layout.Q5_0:   {run: q5_0Generic},
		layout.Q5_1:   {run: q5_1Generic},
		layout.Q8_0:   {run: q8_0Generic},
		layout.Q8_1:   {run: q8_1Generic},
		layout.Q2_K:   {run: q2_KGeneric},
		layout.Q3_K:   {run: q3_KGeneric},
		layout.Q4_K:   {run: q4_KGeneric},
		layout.Q5_K:   {run: q5_KGeneric},
		layout.Q6_K:   {run: q6_KGeneric},
		layout.IQ4_NL: {run: iq4_NLGeneric},
		layout.IQ4_XS: {run: iq4_XSGeneric},
		layout.MXFP4:  {run: mxfp4Generic},
		layout.NVFP4:  {run: nvfp4Generic},
		layout.Q8_K:   {run: q8_KGeneric},
		layout.APR_Q4: {run: aprQ4Generic},

		layout.IQ2_XXS: {run: iq2_XXSGeneric},
		layout.IQ2_XS:  {run: iq2_XSGeneric},
		layout.IQ2_S:   {run: iq2_SGeneric},
		layout.IQ3_XXS: {run: iq3_XXSGeneric},
		layout.IQ3_S:   {run: iq3_SGeneric},
		layout.IQ1_S:   {run: iq1_SGeneric},
		layout.IQ1_M:   {run: iq1_MGeneric},
		layout.TQ1_0:   {run: tq1_0Generic},
		layout.TQ2_0:   {run: tq2_0Generic},
		layout.Q1_0:    {run: q1_0Generic},
		layout.Q2_0:    {run: q2_0Generic},
	},
	scaled: [numTypes]scaledKernel{
		layout.I8:  {run: i8ScaledGeneric},
		layout.I16: {run: i16ScaledGeneric},
	},
	grouped: func() (kernels [numCodes]groupKernel) {
		for c := range layout.Code(numCodes) {
			if codeValues[c] != nil {
				kernels[c] = groupsGeneric(c, codeValues[c], false) // with zero points
			}
			if 1 <= c && c <= 8 {
				kernels[c+biased] = groupsGeneric(c, codeValues[c], true) // with biases
			}
		}
		return kernels
	}(),
	transpose: transposer{words: wordsGeneric, nibbles: nibblesGeneric},
	scaleEach: func(dst, scales, offsets []float32) { rescale(dst, scales, offsets, nil, false) },
	permuted: [9]permutedKernel{
		permutedRows(0), permutedRows(1), permutedRows(2), permutedRows(3), permutedRows(4), permutedRows(5), permutedRows(6), permutedRows(7), permutedRows(8),
	},
}

// valuesIn returns the portable loop of a type whose codes index values. look is lookup, lookup6 or unpackLowFirst, as the codes
// are packed.
func valuesIn(values *[256]float32, look func(dst []float32, src []byte, values *[256]float32)) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) { look(dst, src, values) }
}
