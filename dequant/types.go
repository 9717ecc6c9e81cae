package dequant

import "github.com/tensormap/tensormap/layout"

// Each function is Expand for one type: whole blocks, lengths that fit, or an error.

// F32 copies stored float32s, NaNs untouched: 4 bytes an element.
func F32(dst []float32, src []byte) error { return Expand(layout.F32, dst, src) }

// F16 expands binary16, exactly: 2 bytes an element.
func F16(dst []float32, src []byte) error { return Expand(layout.F16, dst, src) }

// BF16 expands bfloat16, exactly: 2 bytes an element.
func BF16(dst []float32, src []byte) error { return Expand(layout.BF16, dst, src) }

// F64 rounds binary64 to the nearest float32; beyond its range to an infinity: 8 bytes an element.
func F64(dst []float32, src []byte) error { return Expand(layout.F64, dst, src) }

// I8 converts int8: 1 byte an element.
func I8(dst []float32, src []byte) error { return Expand(layout.I8, dst, src) }

// I16 converts int16: 2 bytes an element.
func I16(dst []float32, src []byte) error { return Expand(layout.I16, dst, src) }

// I32 converts int32, rounded once to nearest even: 4 bytes an element.
func I32(dst []float32, src []byte) error { return Expand(layout.I32, dst, src) }

// I64 converts int64, rounded once to nearest even: 8 bytes an element.
func I64(dst []float32, src []byte) error { return Expand(layout.I64, dst, src) }

// U8 converts uint8: 1 byte an element.
func U8(dst []float32, src []byte) error { return Expand(layout.U8, dst, src) }

// U16 converts uint16: 2 bytes an element.
func U16(dst []float32, src []byte) error { return Expand(layout.U16, dst, src) }

// U32 converts uint32, rounded once to nearest even: 4 bytes an element.
func U32(dst []float32, src []byte) error { return Expand(layout.U32, dst, src) }

// U64 converts uint64, rounded once to nearest even: 8 bytes an element.
func U64(dst []float32, src []byte) error { return Expand(layout.U64, dst, src) }

// BOOL gives 0 for a zero byte, else 1: 1 byte an element.
func BOOL(dst []float32, src []byte) error { return Expand(layout.BOOL, dst, src) }

// F8_E4M3 expands OFP8 E4M3 (no infinities), exactly: 1 byte an element.
func F8_E4M3(dst []float32, src []byte) error { return Expand(layout.F8_E4M3, dst, src) }

// F8_E5M2 expands OFP8 E5M2, exactly: 1 byte an element.
func F8_E5M2(dst []float32, src []byte) error { return Expand(layout.F8_E5M2, dst, src) }

// Q4_0 expands blocks of 32 in 18 bytes: value (n-8)·d.
func Q4_0(dst []float32, src []byte) error { return Expand(layout.Q4_0, dst, src) }

// Q4_1 expands blocks of 32 in 20 bytes: value n·d + m.
func Q4_1(dst []float32, src []byte) error { return Expand(layout.Q4_1, dst, src) }

// Q5_0 expands blocks of 32 in 22 bytes: value (n-16)·d.
func Q5_0(dst []float32, src []byte) error { return Expand(layout.Q5_0, dst, src) }

// Q5_1 expands blocks of 32 in 24 bytes: value n·d + m.
func Q5_1(dst []float32, src []byte) error { return Expand(layout.Q5_1, dst, src) }

// Q8_0 expands blocks of 32 in 34 bytes: value q·d.
func Q8_0(dst []float32, src []byte) error { return Expand(layout.Q8_0, dst, src) }

// Q8_1 expands blocks of 32 in 36 bytes: value q·d; the stored sum is not used.
func Q8_1(dst []float32, src []byte) error { return Expand(layout.Q8_1, dst, src) }

// Q2_K expands blocks of 256 in 84 bytes: value (d·s)·q - dmin·m, s and m of 4 bits for every 16 elements.
func Q2_K(dst []float32, src []byte) error { return Expand(layout.Q2_K, dst, src) }

// Q3_K expands blocks of 256 in 110 bytes: value (d·s)·q, s of 6 bits for every 16 elements.
func Q3_K(dst []float32, src []byte) error { return Expand(layout.Q3_K, dst, src) }

// Q4_K expands blocks of 256 in 144 bytes: value (d·s)·q - dmin·m, s and m of 6 bits for every 32 elements.
func Q4_K(dst []float32, src []byte) error { return Expand(layout.Q4_K, dst, src) }

// Q5_K expands blocks of 256 in 176 bytes: value (d·s)·q - dmin·m, s and m of 6 bits for every 32 elements.
func Q5_K(dst []float32, src []byte) error { return Expand(layout.Q5_K, dst, src) }

// Q6_K expands blocks of 256 in 210 bytes: value (d·s)·q, s of 8 bits for every 16 elements.
func Q6_K(dst []float32, src []byte) error { return Expand(layout.Q6_K, dst, src) }

// IQ4_NL expands blocks of 32 in 18 bytes: value d·T[n] with a codebook T of 16.
func IQ4_NL(dst []float32, src []byte) error { return Expand(layout.IQ4_NL, dst, src) }

// IQ4_XS expands blocks of 256 in 136 bytes: value (d·s)·T[n], s of 6 bits for every 32 elements, T that of IQ4_NL.
func IQ4_XS(dst []float32, src []byte) error { return Expand(layout.IQ4_XS, dst, src) }

// MXFP4 expands blocks of 32 in 17 bytes: value E2M1 times a power of two (OCP MX v1.0).
func MXFP4(dst []float32, src []byte) error { return Expand(layout.MXFP4, dst, src) }

// NVFP4 expands blocks of 64 in 36 bytes: value E2M1 times an unsigned E4M3 for every 16 elements. The scale
// of the whole tensor that such files may have apart is not applied.
func NVFP4(dst []float32, src []byte) error { return Expand(layout.NVFP4, dst, src) }

// Q8_K expands blocks of 256 in 292 bytes: value q·d with a float32 d; the stored sums are not used.
func Q8_K(dst []float32, src []byte) error { return Expand(layout.Q8_K, dst, src) }

// IQ2_XXS expands blocks of 256 in 66 bytes: value ±d·(s+½)/4·G, s of 4 bits for every 32 elements, and eight G
// at a time from a codebook of 256.
func IQ2_XXS(dst []float32, src []byte) error { return Expand(layout.IQ2_XXS, dst, src) }

// IQ2_XS expands blocks of 256 in 74 bytes: as IQ2_XXS, s for every 16 elements, a codebook of 512.
func IQ2_XS(dst []float32, src []byte) error { return Expand(layout.IQ2_XS, dst, src) }

// IQ2_S expands blocks of 256 in 82 bytes: as IQ2_XS, a codebook of 1024.
func IQ2_S(dst []float32, src []byte) error { return Expand(layout.IQ2_S, dst, src) }

// IQ3_XXS expands blocks of 256 in 98 bytes: value ±d·(s+½)/2·G, s of 4 bits for every 32 elements, and four G at
// a time from a codebook of 256.
func IQ3_XXS(dst []float32, src []byte) error { return Expand(layout.IQ3_XXS, dst, src) }

// IQ3_S expands blocks of 256 in 110 bytes: value ±d·(2s+1)·G, s of 4 bits for every 32 elements, and four G at
// a time from a codebook of 512.
func IQ3_S(dst []float32, src []byte) error { return Expand(layout.IQ3_S, dst, src) }

// IQ1_S expands blocks of 256 in 50 bytes: value d·(2s+1)·(G±⅛), s of 3 bits and the sign for every 32 elements, and
// eight G at a time from a codebook of 2048.
func IQ1_S(dst []float32, src []byte) error { return Expand(layout.IQ1_S, dst, src) }

// IQ1_M expands blocks of 256 in 56 bytes: as IQ1_S, s for every 16 elements, the sign for every 8.
func IQ1_M(dst []float32, src []byte) error { return Expand(layout.IQ1_M, dst, src) }

// TQ1_0 expands blocks of 256 in 54 bytes: value -d, 0 or d, five elements in a byte.
func TQ1_0(dst []float32, src []byte) error { return Expand(layout.TQ1_0, dst, src) }

// TQ2_0 expands blocks of 256 in 66 bytes: value (q-1)·d, q of 2 bits.
func TQ2_0(dst []float32, src []byte) error { return Expand(layout.TQ2_0, dst, src) }

// Q1_0 expands blocks of 128 in 18 bytes: value d or -d.
func Q1_0(dst []float32, src []byte) error { return Expand(layout.Q1_0, dst, src) }

// Q2_0 expands blocks of 64 in 18 bytes: value (q-1)·d, q of 2 bits, four neighbours in a byte.
func Q2_0(dst []float32, src []byte) error { return Expand(layout.Q2_0, dst, src) }

// APR_Q4 expands blocks of 32 in 18 bytes, of which the last may be filled up: value (n-8)·d, neighbours
// in one byte; d counts as 0 where it is infinite, NaN or below 2⁻¹⁴.
func APR_Q4(dst []float32, src []byte) error { return Expand(layout.APR_Q4, dst, src) }

// APR_Q8 expands a whole tensor: a float32 scale d, then int8s q: value q·d.
func APR_Q8(dst []float32, src []byte) error { return Expand(layout.APR_Q8, dst, src) }

// I8Scaled gives scale × (q − zero) for every int8 q. See ExpandScaled.
func I8Scaled(dst []float32, src []byte, scale float32, zero int64) error {
	return ExpandScaled(layout.I8, dst, src, scale, zero)
}

// I16Scaled gives scale × (q − zero) for every int16 q. See ExpandScaled.
func I16Scaled(dst []float32, src []byte, scale float32, zero int64) error {
	return ExpandScaled(layout.I16, dst, src, scale, zero)
}

// I32Scaled gives scale × (q − zero) for every int32 q. See ExpandScaled.
func I32Scaled(dst []float32, src []byte, scale float32, zero int64) error {
	return ExpandScaled(layout.I32, dst, src, scale, zero)
}

// I64Scaled gives scale × (q − zero) for every int64 q. See ExpandScaled.
func I64Scaled(dst []float32, src []byte, scale float32, zero int64) error {
	return ExpandScaled(layout.I64, dst, src, scale, zero)
}
