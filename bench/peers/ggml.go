package main

/*
#include <stdint.h>

// All of ggml's row functions have this shape, apart from the types of their pointers.
typedef void (*row)(const void *, void *, int64_t);
#define ROW(name) extern void name(const void *, void *, int64_t)

ROW(ggml_fp16_to_fp32_row);
ROW(ggml_cpu_fp16_to_fp32);
ROW(ggml_bf16_to_fp32_row);
ROW(ggml_cpu_bf16_to_fp32);
ROW(dequantize_row_q4_0);
ROW(dequantize_row_q4_1);
ROW(dequantize_row_q5_0);
ROW(dequantize_row_q5_1);
ROW(dequantize_row_q8_0);
ROW(dequantize_row_q2_K);
ROW(dequantize_row_q3_K);
ROW(dequantize_row_q4_K);
ROW(dequantize_row_q5_K);
ROW(dequantize_row_q6_K);
ROW(dequantize_row_iq4_nl);
ROW(dequantize_row_iq4_xs);
ROW(dequantize_row_mxfp4);
ROW(dequantize_row_tq1_0);
ROW(dequantize_row_tq2_0);
ROW(dequantize_row_iq2_xxs);
ROW(dequantize_row_iq2_xs);
ROW(dequantize_row_iq2_s);
ROW(dequantize_row_iq3_xxs);
ROW(dequantize_row_iq3_s);
ROW(dequantize_row_iq1_s);
ROW(dequantize_row_iq1_m);
ROW(dequantize_row_q8_K);

ROW(ggml_fp32_to_fp16_row);
ROW(ggml_cpu_fp32_to_fp16);
ROW(ggml_fp32_to_bf16_row_ref);
ROW(ggml_fp32_to_bf16_row);
ROW(quantize_row_q4_0_ref);
ROW(quantize_row_q4_1_ref);
ROW(quantize_row_q5_0_ref);
ROW(quantize_row_q5_1_ref);
ROW(quantize_row_q8_0_ref);
ROW(quantize_row_q8_0);

// The types with a search have functions of rows, with a weight for each element of a row or none.
typedef size_t (*rows)(const void *, void *, int64_t, int64_t, const void *);
#define ROWS(name) extern size_t name(const void *, void *, int64_t, int64_t, const void *)

ROWS(quantize_q4_0);
ROWS(quantize_q4_1);
ROWS(quantize_q5_0);
ROWS(quantize_q5_1);
ROWS(quantize_q2_K);
ROWS(quantize_q3_K);
ROWS(quantize_q4_K);
ROWS(quantize_q5_K);
ROWS(quantize_q6_K);
ROWS(quantize_iq4_nl);
ROWS(quantize_iq4_xs);
ROWS(quantize_mxfp4);

static void repeat_rows(rows f, const void *src, void *dst, int64_t n, int64_t row, const void *weights, int64_t passes) {
	while (passes-- > 0) f(src, dst, n / row, row, weights);
}

static void repeat(row f, const void *src, void *dst, int64_t n, int64_t passes) {
	while (passes-- > 0) f(src, dst, n);
}

// Where the compiler has AMX, ggml's list of buffers asks for one in C++ that this copy leaves out.
__attribute__((weak)) void *_Z28ggml_backend_amx_buffer_typev(void) { return 0; }

static const char *compiler(void) { return __VERSION__; }

// less is a product less a number. Rounded twice, the square of 1 + 2^-12 less 1 + 2^-11 is 0.
static float less(float x, float y, float z) { return x * y - z; }
*/
import "C"

import (
	"cmp"
	"unsafe"

	_ "github.com/ollama/ollama/ml/backend/ggml/ggml/src" // compiles ggml's C

	"github.com/tensormap/tensormap/layout"
)

// ggmlExpanders are in the order of the table.
var ggmlExpanders = []peer{
	expander(layout.F16, "ggml_cpu_fp16_to_fp32", C.row(C.ggml_cpu_fp16_to_fp32)),
	expander(layout.F16, "ggml_fp16_to_fp32_row", C.row(C.ggml_fp16_to_fp32_row)),
	expander(layout.BF16, "ggml_cpu_bf16_to_fp32", C.row(C.ggml_cpu_bf16_to_fp32)),
	expander(layout.BF16, "ggml_bf16_to_fp32_row", C.row(C.ggml_bf16_to_fp32_row)),
	expander(layout.Q8_0, "dequantize_row_q8_0", C.row(C.dequantize_row_q8_0)),
	expander(layout.Q4_0, "dequantize_row_q4_0", C.row(C.dequantize_row_q4_0)),
	expander(layout.Q4_1, "dequantize_row_q4_1", C.row(C.dequantize_row_q4_1)),
	expander(layout.Q5_0, "dequantize_row_q5_0", C.row(C.dequantize_row_q5_0)),
	expander(layout.Q5_1, "dequantize_row_q5_1", C.row(C.dequantize_row_q5_1)),
	expander(layout.Q2_K, "dequantize_row_q2_K", C.row(C.dequantize_row_q2_K)),
	expander(layout.Q3_K, "dequantize_row_q3_K", C.row(C.dequantize_row_q3_K)),
	expander(layout.Q4_K, "dequantize_row_q4_K", C.row(C.dequantize_row_q4_K)),
	expander(layout.Q5_K, "dequantize_row_q5_K", C.row(C.dequantize_row_q5_K)),
	expander(layout.Q6_K, "dequantize_row_q6_K", C.row(C.dequantize_row_q6_K)),
	expander(layout.IQ4_NL, "dequantize_row_iq4_nl", C.row(C.dequantize_row_iq4_nl)),
	expander(layout.IQ4_XS, "dequantize_row_iq4_xs", C.row(C.dequantize_row_iq4_xs)),
	expander(layout.MXFP4, "dequantize_row_mxfp4", C.row(C.dequantize_row_mxfp4)),
	expander(layout.TQ1_0, "dequantize_row_tq1_0", C.row(C.dequantize_row_tq1_0)),
	expander(layout.TQ2_0, "dequantize_row_tq2_0", C.row(C.dequantize_row_tq2_0)),
	expander(layout.IQ2_XXS, "dequantize_row_iq2_xxs", C.row(C.dequantize_row_iq2_xxs)),
	expander(layout.IQ2_XS, "dequantize_row_iq2_xs", C.row(C.dequantize_row_iq2_xs)),
	expander(layout.IQ2_S, "dequantize_row_iq2_s", C.row(C.dequantize_row_iq2_s)),
	expander(layout.IQ3_XXS, "dequantize_row_iq3_xxs", C.row(C.dequantize_row_iq3_xxs)),
	expander(layout.IQ3_S, "dequantize_row_iq3_s", C.row(C.dequantize_row_iq3_s)),
	expander(layout.IQ1_S, "dequantize_row_iq1_s", C.row(C.dequantize_row_iq1_s)),
	expander(layout.IQ1_M, "dequantize_row_iq1_m", C.row(C.dequantize_row_iq1_m)),
	expander(layout.Q8_K, "dequantize_row_q8_K", C.row(C.dequantize_row_q8_K)),
}

// ggmlQuantizers make the bytes that Quantize promises.
var ggmlQuantizers = []peer{
	quantizer(layout.F16, "ggml_cpu_fp32_to_fp16", C.row(C.ggml_cpu_fp32_to_fp16)),
	quantizer(layout.F16, "ggml_fp32_to_fp16_row", C.row(C.ggml_fp32_to_fp16_row)),
	quantizer(layout.BF16, "ggml_fp32_to_bf16_row_ref", C.row(C.ggml_fp32_to_bf16_row_ref)),
	quantizer(layout.Q8_0, "quantize_row_q8_0_ref", C.row(C.quantize_row_q8_0_ref)),
	quantizer(layout.Q4_0, "quantize_row_q4_0_ref", C.row(C.quantize_row_q4_0_ref)),
	quantizer(layout.Q4_1, "quantize_row_q4_1_ref", C.row(C.quantize_row_q4_1_ref)),
	quantizer(layout.Q5_0, "quantize_row_q5_0_ref", C.row(C.quantize_row_q5_0_ref)),
	quantizer(layout.Q5_1, "quantize_row_q5_1_ref", C.row(C.quantize_row_q5_1_ref)),
	searcher(layout.Q2_K, "quantize_q2_K", C.rows(C.quantize_q2_K), nil),
	searcher(layout.Q3_K, "quantize_q3_K", C.rows(C.quantize_q3_K), nil),
	searcher(layout.Q4_K, "quantize_q4_K", C.rows(C.quantize_q4_K), nil),
	searcher(layout.Q5_K, "quantize_q5_K", C.rows(C.quantize_q5_K), nil),
	searcher(layout.Q6_K, "quantize_q6_K", C.rows(C.quantize_q6_K), nil),
	searcher(layout.IQ4_NL, "quantize_iq4_nl", C.rows(C.quantize_iq4_nl), nil),
	searcher(layout.IQ4_XS, "quantize_iq4_xs", C.rows(C.quantize_iq4_xs), nil),
	searcher(layout.MXFP4, "quantize_mxfp4", C.rows(C.quantize_mxfp4), nil),
}

// ggmlWeighted make the bytes that QuantizeRows promises with importance.
var ggmlWeighted = []peer{
	searcher(layout.Q4_0, "quantize_q4_0, weighted", C.rows(C.quantize_q4_0), importance),
	searcher(layout.Q4_1, "quantize_q4_1, weighted", C.rows(C.quantize_q4_1), importance),
	searcher(layout.Q5_0, "quantize_q5_0, weighted", C.rows(C.quantize_q5_0), importance),
	searcher(layout.Q5_1, "quantize_q5_1, weighted", C.rows(C.quantize_q5_1), importance),
	searcher(layout.Q2_K, "quantize_q2_K, weighted", C.rows(C.quantize_q2_K), importance),
	searcher(layout.Q3_K, "quantize_q3_K, weighted", C.rows(C.quantize_q3_K), importance),
	searcher(layout.Q4_K, "quantize_q4_K, weighted", C.rows(C.quantize_q4_K), importance),
	searcher(layout.Q5_K, "quantize_q5_K, weighted", C.rows(C.quantize_q5_K), importance),
	searcher(layout.Q6_K, "quantize_q6_K, weighted", C.rows(C.quantize_q6_K), importance),
	searcher(layout.IQ4_NL, "quantize_iq4_nl, weighted", C.rows(C.quantize_iq4_nl), importance),
	searcher(layout.IQ4_XS, "quantize_iq4_xs, weighted", C.rows(C.quantize_iq4_xs), importance),
	searcher(layout.MXFP4, "quantize_mxfp4, weighted", C.rows(C.quantize_mxfp4), importance),
}

// ggmlRacers quantize faster than ggml's reference, with other results: the first may
// flush subnormals to zero, the second divides 127 by the magnitude and rounds ties to even.
var ggmlRacers = []peer{
	quantizer(layout.BF16, "ggml_fp32_to_bf16_row", C.row(C.ggml_fp32_to_bf16_row)),
	quantizer(layout.Q8_0, "quantize_row_q8_0", C.row(C.quantize_row_q8_0)),
}

func expander(d layout.DType, name string, f C.row) peer {
	return peer{d, name, func(floats []float32, blocks []byte, passes int) {
		C.repeat(f, pointer(blocks), pointer(floats), C.int64_t(len(floats)), C.int64_t(passes))
	}}
}

func quantizer(d layout.DType, name string, f C.row) peer {
	return peer{d, name, func(floats []float32, blocks []byte, passes int) {
		C.repeat(f, pointer(floats), pointer(blocks), C.int64_t(len(floats)), C.int64_t(passes))
	}}
}

// searcher makes a peer of rows that have weights, or of blocks without.
func searcher(d layout.DType, name string, f C.rows, weights []float32) peer {
	return peer{d, name, func(floats []float32, blocks []byte, passes int) {
		row := cmp.Or(len(weights), len(floats)) // ggml counts a row's blocks from its start
		C.repeat_rows(f, pointer(floats), pointer(blocks), C.int64_t(len(floats)), C.int64_t(row), pointer(weights), C.int64_t(passes))
	}}
}

func pointer[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// ggmlCompiler returns the version of the C compiler.
func ggmlCompiler() string { return C.GoString(C.compiler()) }

// contracts reports whether the C compiler turned x·y + z into one operation.
func contracts() bool { return C.less(1+0x1p-12, 1+0x1p-12, 1+0x1p-11) != 0 }
