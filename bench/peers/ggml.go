package main

/*
#cgo LDFLAGS: -rdynamic
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

// All of ggml's row functions have this shape, apart from the types of their pointers.
typedef void (*row)(const void *, void *, int64_t);

// The types with a search have functions of rows, with a weight for each element of a row or none.
typedef size_t (*rows)(const void *, void *, int64_t, int64_t, const void *);

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
	"slices"
	"strings"
	"unsafe"

	_ "github.com/ollama/ollama/ml/backend/ggml/ggml/src" // compiles ggml's C

	"github.com/tensormap/tensormap/layout"
)

// program is this program, whose symbols -rdynamic lets dlsym find.
var program = C.dlopen(nil, C.RTLD_LAZY)

// routine returns a function of ggml's C.
func routine(name string) unsafe.Pointer {
	f := symbol(program, name)
	if f == nil {
		panic("ggml has no " + name)
	}
	return f
}

// named makes a peer for each type. In the name of ggml's function its name stands for %.
func named(of func(layout.DType, string) peer, name string, types ...layout.DType) (peers []peer) {
	for _, d := range types {
		peers = append(peers, of(d, strings.Replace(name, "%", typeName(d), 1)))
	}
	return peers
}

// typeName returns ggml's name of a type: in lower case, except the K of Q2_K and the like.
func typeName(d layout.DType) string {
	name := strings.ToLower(d.String())
	if n, ok := strings.CutSuffix(name, "_k"); ok {
		name = n + "_K"
	}
	return name
}

// searched are the types with a search.
var searched = []layout.DType{
	layout.Q2_K, layout.Q3_K, layout.Q4_K, layout.Q5_K, layout.Q6_K, layout.IQ4_NL, layout.IQ4_XS, layout.MXFP4,
}

// ggmlExpanders are in the order of the table.
var ggmlExpanders = slices.Concat(
	named(expander, "ggml_cpu_fp16_to_fp32", layout.F16), named(expander, "ggml_fp16_to_fp32_row", layout.F16),
	named(expander, "ggml_cpu_bf16_to_fp32", layout.BF16), named(expander, "ggml_bf16_to_fp32_row", layout.BF16),
	named(expander, "dequantize_row_%", layout.Q8_0, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1),
	named(expander, "dequantize_row_%", searched...),
	named(expander, "dequantize_row_%", layout.TQ1_0, layout.TQ2_0, layout.IQ2_XXS, layout.IQ2_XS, layout.IQ2_S,
		layout.IQ3_XXS, layout.IQ3_S, layout.IQ1_S, layout.IQ1_M, layout.Q8_K),
)

// ggmlQuantizers make the bytes that Quantize promises.
var ggmlQuantizers = slices.Concat(
	named(quantizer, "ggml_cpu_fp32_to_fp16", layout.F16), named(quantizer, "ggml_fp32_to_fp16_row", layout.F16),
	named(quantizer, "ggml_fp32_to_bf16_row_ref", layout.BF16),
	named(quantizer, "quantize_row_%_ref", layout.Q8_0, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1),
	named(searcher(nil), "quantize_%", searched...),
)

// ggmlWeighted make the bytes that Quantize promises with importance.
var ggmlWeighted = slices.Concat(
	named(searcher(importance), "quantize_%", layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1),
	named(searcher(importance), "quantize_%", searched...),
)

// ggmlRacers quantize faster than ggml's reference, with other results: the first may
// flush subnormals to zero, the second divides 127 by the magnitude and rounds ties to even.
var ggmlRacers = slices.Concat(named(quantizer, "ggml_fp32_to_bf16_row", layout.BF16), named(quantizer, "quantize_row_%", layout.Q8_0))

// expander returns the peer that expands by ggml's function name.
func expander(d layout.DType, name string) peer { return expanderOf(routine(name), d, name) }

// expanderOf returns the peer that expands by function f, which is called name.
func expanderOf(f unsafe.Pointer, d layout.DType, name string) peer {
	return peer{d, name, func(floats []float32, blocks []byte, passes int) {
		C.repeat(C.row(f), pointer(blocks), pointer(floats), C.int64_t(len(floats)), C.int64_t(passes))
	}}
}

// quantizer returns the peer that quantizes by ggml's function name.
func quantizer(d layout.DType, name string) peer {
	f := C.row(routine(name))
	return peer{d, name, func(floats []float32, blocks []byte, passes int) {
		C.repeat(f, pointer(floats), pointer(blocks), C.int64_t(len(floats)), C.int64_t(passes))
	}}
}

// searcher makes peers of rows that have weights, or of blocks without.
func searcher(weights []float32) func(layout.DType, string) peer {
	return func(d layout.DType, name string) peer {
		f := C.rows(routine(name))
		if weights != nil {
			name += ", weighted"
		}
		return peer{d, name, func(floats []float32, blocks []byte, passes int) {
			row := cmp.Or(len(weights), len(floats)) // ggml counts a row's blocks from its start
			C.repeat_rows(f, pointer(floats), pointer(blocks), C.int64_t(len(floats)), C.int64_t(row), pointer(weights), C.int64_t(passes))
		}}
	}
}

// pointer returns the address of the first element of s.
func pointer[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// ggmlCompiler returns the version of the C compiler.
func ggmlCompiler() string { return C.GoString(C.compiler()) }

// contracts reports whether the C compiler turned x·y + z into one operation.
func contracts() bool { return C.less(1+0x1p-12, 1+0x1p-12, 1+0x1p-11) != 0 }
