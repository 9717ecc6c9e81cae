// Package dot multiplies stored rows of a matrix with vectors, without expanding them.
//
// Activation.Set makes an activation of a vector. Mat multiplies rows with one or several activations: a row is read from
// memory once for all of them. Kernels also unpack a row once for a few activations, so that a vector is
// multiplied 1.2 to 2.1 times as fast as alone. All functions run on the caller's core.
// loader.Tensor.MatVec and MatMul share a tensor's rows out to all cores. This is where the
// project's arithmetic ends: there is no attention, no norm and no graph.
//
// # Activations
//
// Integer kernels multiply codes with codes, so a vector is quantized first, as ggml does for the
// type of the rows:
//
//	rows                                            activation
//	Q4_0 Q5_0 Q8_0 IQ4_NL MXFP4 NVFP4               Q8_0: codes and binary16 scale for 32 elements
//	Q4_1 Q5_1                                       Q8_1: also scale times sum, rounded to binary16
//	Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS TQ1_0 TQ2_0     Q8_K: codes and binary32 scale for 256 elements
//	all others that package dequant expands         F32: the vector itself
//
// Integers without blocks are rows of numbers. The scale of an I8 tensor is a factor of its products, which loader applies.
//
// The codes, scales and sums are as in ggml's quantize_row_q8_0_ref, q8_1_ref and q8_K_ref. A
// NaN or an infinity has no code, and its vector no activation. A block whose reciprocal scale
// leaves float32 counts as zeros.
//
// # Values
//
// Sums have the same bits on every machine and level. Everything is float32 and rounds after each
// operation: no multiply-add is fused. Integer sums are exact, and equal the sums of ggml's
// ggml_vec_dot_*.
//
// A quantized row has eight partial sums, all 0 at first. The k'th block of 32 elements adds to
// sum k mod 8, and the blocks of 256 elements are eight such blocks. Let d and m be scale and
// offset as package dequant has them. Let e be the activation's scale, y its codes, and Σ a sum
// over 32 elements, or over the 16 that share s or μ. Then a block adds, product by product from the left:
//
//	Q4_0 Q5_0 Q8_0 IQ4_NL MXFP4                d·e·Σqy
//	Q4_1 Q5_1                                  d·e·Σqy, and then m times the activation's rounded e·Σy
//	Q3_K Q6_K IQ4_XS TQ1_0 TQ2_0               d·e·(Σ s·Σqy)
//	Q2_K Q4_K Q5_K                             d·e·(Σ s·Σqy), less m·e·(Σ μ·Σy)
//	NVFP4                                      d·e·Σqy for 16 elements, and then for the other 16
//
// In these lines q includes what the type's formula subtracts from a code, or is its codebook's entry. The
// parentheses are integers below 2²⁴, exact in float32.
//
// A row of floats has 32 partial sums. Element i adds its product to sum i mod 32. A row of more
// than 8192 elements is summed in segments of 8192, from the first segment on.
//
// Partial sums are added in halves: sum i and sum i+n/2 of n, until one is left.
//
// # Errors
//
// A row of n elements has the sum of n rounded products. Its distance from the sum in exact
// arithmetic is at most (n/32 + 8)·2⁻²⁴ times the sum of the products' magnitudes for floats. For
// quantized rows it is (n/128 + 8)·2⁻²⁴ times the sum of the magnitudes of what blocks add, given the
// activation's codes. Quantizing a vector costs more: up to e/2 an element.
package dot
