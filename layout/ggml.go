package layout

// ggmlTypes maps ggml's type ids (ggml.h, enum ggml_type), as GGUF stores them, to
// DTypes. Ids that ggml removed (4, 5, 31-33, 36-38) stay Invalid.
var ggmlTypes = [...]DType{
	0: F32, 1: F16, 2: Q4_0, 3: Q4_1, 6: Q5_0, 7: Q5_1, 8: Q8_0, 9: Q8_1,
	10: Q2_K, 11: Q3_K, 12: Q4_K, 13: Q5_K, 14: Q6_K, 15: Q8_K,
	16: IQ2_XXS, 17: IQ2_XS, 18: IQ3_XXS, 19: IQ1_S, 20: IQ4_NL, 21: IQ3_S, 22: IQ2_S, 23: IQ4_XS,
	24: I8, 25: I16, 26: I32, 27: I64, 28: F64, 29: IQ1_M, 30: BF16,
	34: TQ1_0, 35: TQ2_0, 39: MXFP4, 40: NVFP4, 41: Q1_0, 42: Q2_0,
}

var ggmlIDs = func() (ids [numDTypes]int16) {
	for d := range ids {
		ids[d] = -1
	}
	for id, d := range ggmlTypes {
		if d != Invalid {
			ids[d] = int16(id)
		}
	}
	return ids
}()

// FromGGML finds the type that ggml numbers id; ok is false for ids that ggml never
// had or has removed.
func FromGGML(id uint32) (d DType, ok bool) {
	if id >= uint32(len(ggmlTypes)) {
		return Invalid, false
	}
	d = ggmlTypes[id]
	return d, d != Invalid
}

// GGML is ggml's number for the type; ok is false where ggml has none.
func (d DType) GGML() (id uint32, ok bool) {
	if d >= numDTypes || ggmlIDs[d] < 0 {
		return 0, false
	}
	return uint32(ggmlIDs[d]), true
}
