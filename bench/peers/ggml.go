package peers

/*
#cgo LDFLAGS: -rdynamic
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// All of ggml's row functions have this shape, apart from the types of their pointers.
typedef void (*row)(const void *, void *, int64_t);

// The types with a search have functions of rows, with a weight for each element of a row or none.
typedef size_t (*rows)(const void *, void *, int64_t, int64_t, const void *);

typedef void (*dot)(int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int nrc);

extern void ggml_cpu_init(void);

static void repeat(row f, const void *src, void *dst, int64_t n, int64_t passes) {
	while (passes-- > 0) f(src, dst, n);
}

static void repeat_rows(rows f, const void *src, void *dst, int64_t n, int64_t row, const void *weights, int64_t passes) {
	while (passes-- > 0) f(src, dst, n / row, row, weights);
}

static void dots(dot f, float *dst, const char *rows, int64_t count, int64_t size, int n, const void *y, int64_t passes) {
	while (passes-- > 0)
		for (int64_t r = 0; r < count; r++) f(n, dst + r, 0, rows + r*size, 0, y, 0, 1);
}

static uint64_t total(const uint64_t *words, int64_t n, int64_t passes) {
	uint64_t sum = 0;
	while (passes-- > 0) {
		for (int64_t i = 0; i < n; i++) sum += words[i];
		__asm__ volatile("" : "+r"(sum) :: "memory");
	}
	return sum;
}

// Where the compiler has AMX, ggml's list of buffers asks for one in C++ that this copy leaves out.
__attribute__((weak)) void *_Z28ggml_backend_amx_buffer_typev(void) { return 0; }

static const char *compiler(void) { return __VERSION__; }

// less is a product less a number. Rounded twice, the square of 1 + 2^-12 less 1 + 2^-11 is 0.
static float less(float x, float y, float z) { return x * y - z; }
*/
import "C"

import (
	"fmt"
	"unsafe"

	_ "github.com/ollama/ollama/ml/backend/ggml/ggml/src" // compiles ggml's C
)

func init() { C.ggml_cpu_init() }

// program is this program, whose symbols -rdynamic lets dlsym find.
var program = C.dlopen(nil, C.RTLD_LAZY)

// openLibrary loads the shared library at path, for good. It is lazy, because a library may have been made of ggml's
// quantizations alone.
func openLibrary(path string) (unsafe.Pointer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	lib := C.dlopen(name, C.RTLD_LAZY|C.RTLD_LOCAL)
	if lib == nil {
		return nil, fmt.Errorf("library: %s", C.GoString(C.dlerror()))
	}
	return lib, nil
}

// symbol returns the address of a function of lib, or nil.
func symbol(lib unsafe.Pointer, name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(lib, s)
}

// repeat calls f, a function of n elements from src to dst, passes times.
func repeat(f, src, dst unsafe.Pointer, n, passes int) {
	C.repeat(C.row(f), src, dst, C.int64_t(n), C.int64_t(passes))
}

// repeatRows calls f, a function of n elements in rows of row elements, which have weights unless the weights are nil.
func repeatRows(f, src, dst unsafe.Pointer, n, row int, weights unsafe.Pointer, passes int) {
	C.repeat_rows(C.rows(f), src, dst, C.int64_t(n), C.int64_t(row), weights, C.int64_t(passes))
}

// repeatDots multiplies as many rows as dst has elements by an activation of n elements with f, passes times.
func repeatDots(f unsafe.Pointer, dst []float32, rows []byte, n int, activation []byte, passes int) {
	C.dots(C.dot(f), (*C.float)(unsafe.SliceData(dst)), (*C.char)(unsafe.Pointer(unsafe.SliceData(rows))), C.int64_t(len(dst)),
		C.int64_t(len(rows)/len(dst)), C.int(n), unsafe.Pointer(unsafe.SliceData(activation)), C.int64_t(passes))
}

// repeatReading reads all words of b, passes times.
func repeatReading(b []byte, passes int) {
	C.total((*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(b))), C.int64_t(len(b)/8), C.int64_t(passes))
}

// compiler returns the version of the C compiler.
func compiler() string { return C.GoString(C.compiler()) }

// contracts reports whether the C compiler turned x·y + z into one operation.
func contracts() bool { return C.less(1+0x1p-12, 1+0x1p-12, 1+0x1p-11) != 0 }
