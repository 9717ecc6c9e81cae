// Package quantize writes float32s as the element types of tensor files: the direction that package dequant does not go. It
// is for programs that write models. Nothing that reads a model imports it.
//
// Encode serves every type that is Supported, and int8s with one scale for a tensor, which [Int8Scale] finds. EncodeLoss does the
// same and counts the values that the new elements do not hold. Both write as a [dequant.Codec] says, which reads it again.
// Bytes are little-endian. Destination and source must not overlap. Nothing here does I/O.
//
// # Types
//
// The formulas of package dequant say what a block's scale d, offset m and codes q stand for. They are chosen as the source does:
//
//	type                   chosen by                                              source
//	F32                    the bits                                               IEEE 754 binary32
//	F16, BF16              rounding to nearest even; subnormals stay              IEEE 754 binary16, bfloat16
//	I8, with a scale       x / scale, half away from zero, at most ±127           APR1
//	Q4_0, Q5_0             the extreme becomes the least code                     ggml quantize_row_q4_0_ref, q5_0_ref
//	Q4_1, Q5_1             least and greatest become the first and the last code  ggml quantize_row_q4_1_ref, q5_1_ref
//	Q8_0                   the greatest magnitude becomes 127                     ggml quantize_row_q8_0_ref
//	MXFP4                  the exponent of the greatest magnitude, less 2         ggml quantize_row_mxfp4_ref
//	Q2_K, Q4_K, Q5_K       a search for scale and offset of 16 or 32 elements     ggml make_qkx2_quants, make_qkx3_quants
//	Q3_K, Q6_K             a search for the scale of 16 elements                  ggml make_q3_quants, make_qx_quants
//	IQ4_NL, IQ4_XS         a search for the scale of 32 elements                  ggml quantize_row_iq4_nl_impl
//
// Numbers beyond F16 and BF16 become infinities. A NaN is quieted there: the sign and the upper bits of the mantissa stay, the
// quiet bit is set.
//
// # Importance
//
// Some numbers of a row count for more than others: the numbers of columns whose inputs are large. The importance of a column is the
// mean square of its inputs, in any unit, as an importance matrix has it. Types with a search weigh their errors by it, as do
// Q4_0, Q4_1, Q5_0 and Q5_1, which then search too.
//
// # Implementations
//
// The portable loops are always compiled, and are the reference: every level gives the same bytes. The best level
// that has a kernel for a type serves it, chosen once when the package is initialized. The build tag purego
// leaves all assembly out. impl.go states the contract of a kernel.
package quantize
