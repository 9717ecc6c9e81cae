// Package dequant expands the element types of tensor files into float32, and writes
// float32s as F16, BF16, integers with one scale, and the quantized types for which ggml has
// reference quantizers (see CanQuantize).
//
// Expand serves every type that is Supported; a function named after each type serves callers
// who know theirs. Bytes are little-endian, as all files of this project store them.
// Destination and source must not overlap. After an error the destination's
// contents are unspecified. Nothing here does I/O; only the Parallel functions
// start goroutines, and only for large buffers.
//
// # Values
//
// Block types are expanded as ggml defines them (ggml-common.h has the layouts,
// dequantize_row_* in ggml-quants.c the arithmetic): all in float32, every
// product and every sum rounded on its own. Small floats follow IEEE 754 binary16,
// bfloat16, and OCP's 8-bit formats (OFP8 v1.0: E4M3 without infinities, E5M2).
// Integers and F64 round once, to nearest even; F64 beyond float32's range becomes an
// infinity. A BOOL byte is 0 or, whatever else it holds, 1. Scaled integers are
// scale × (q − zero) with the difference exact and the product rounded once. APR_Q4 and
// APR_Q8 are aprender's: int codes times a scale, in float32, as its readers expand them.
//
// Every implementation gives the same bits, with one freedom:
//
//   - F32, F16, BF16, F8_E4M3 and F8_E5M2 carry a NaN over bit for bit: its sign stays
//     and its mantissa moves left into place (F16's by 13 bits). A signalling NaN is not
//     quieted, although VCVTPH2PS and FCVTL would quiet it.
//   - In the other types a NaN can only come from arithmetic. Where one implementation
//     gives a NaN all give one, but its sign and payload are not specified: which operand
//     of a sum survives is up to the instruction selected.
//
// F32 to F16 and BF16 rounds to nearest even, overflows to infinity, keeps subnormals, and
// quiets a NaN: its sign and the upper bits of its mantissa stay, the quiet bit is set.
//
// # Implementations
//
// The portable loops, in files named *_generic.go, are always compiled and are the
// reference. A level (avx2, avx512, neon) is a table of kernels for some types; the best level
// that has a kernel for a type serves it, chosen once when the package is initialized.
// The build tag purego leaves all assembly out. impl.go states what a kernel may rely on
// and what it must do.
package dequant
