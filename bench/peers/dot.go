package main

/*
#include <stdint.h>
#include <stddef.h>

typedef void (*dot)(int n, float *s, size_t bs, const void *x, size_t bx, const void *y, size_t by, int nrc);
typedef void (*activate)(const void *, void *, int64_t);

extern void ggml_cpu_init(void);

static void convert(activate f, const void *x, void *y, int64_t n) { f(x, y, n); }

// dots multiplies rows of size bytes with y, passes times over.
static void dots(dot f, float *dst, const char *rows, int64_t count, int64_t size, int n, const void *y, int64_t passes) {
	while (passes-- > 0)
		for (int64_t r = 0; r < count; r++) f(n, dst + r, 0, rows + r*size, 0, y, 0, 1);
}

// total reads all words.
static uint64_t total(const uint64_t *words, int64_t n, int64_t passes) {
	uint64_t sum = 0;
	while (passes-- > 0) {
		for (int64_t i = 0; i < n; i++) sum += words[i];
		__asm__ volatile("" : "+r"(sum) :: "memory");
	}
	return sum;
}
*/
import "C"

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"

	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// A dotPeer multiplies rows of one type by a function of ggml.
type dotPeer struct {
	peer                // its type and name; run is nil
	f        C.dot      // the product of a row and an activation
	activate C.activate // quantizes activations; nil for float32s
}

var dotPeers = func() (list []dotPeer) {
	for _, d := range []layout.DType{
		layout.Q8_0, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1, layout.Q4_K, layout.Q5_K, layout.Q6_K, layout.IQ4_NL, layout.MXFP4,
		layout.Q2_K, layout.Q3_K, layout.IQ4_XS, layout.TQ1_0, layout.TQ2_0,
	} {
		of := "q8_0"
		switch {
		case d.BlockElems() == 256:
			of = "q8_K"
		case d == layout.Q4_1 || d == layout.Q5_1:
			of = "q8_1"
		}
		name := "ggml_vec_dot_" + typeName(d) + "_" + of
		list = append(list, dotPeer{peer{d: d, name: name}, C.dot(routine(name)), C.activate(routine("quantize_row_" + of + "_ref"))})
	}
	return append(list,
		dotPeer{peer{d: layout.F32, name: "ggml_vec_dot_f32"}, C.dot(routine("ggml_vec_dot_f32")), nil},
		dotPeer{peer{d: layout.F16, name: "ggml_vec_dot_f16"}, C.dot(routine("ggml_vec_dot_f16")), C.activate(routine("ggml_cpu_fp32_to_fp16"))},
		dotPeer{peer{d: layout.BF16, name: "ggml_vec_dot_bf16"}, C.dot(routine("ggml_vec_dot_bf16")), C.activate(routine("ggml_fp32_to_bf16_row_ref"))})
}()

// dotCols is the width of rows.
const dotCols = 4096

// A vector is a vector with the activations that package dot and ggml make of it.
type vector struct {
	x      []float32
	ours   *dot.Activation
	theirs []byte
}

var initialize = sync.OnceFunc(func() { C.ggml_cpu_init() })

// vector returns a random vector of n elements.
func (p *dotPeer) vector(rng *rand.Rand, n int) vector { return p.prepared(normal(rng, n)) }

// normal returns n normally distributed numbers.
func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// prepared returns x with its activations.
func (p *dotPeer) prepared(x []float32) vector {
	initialize()
	n := len(x)
	v := vector{x: x, ours: new(dot.Activation), theirs: make([]byte, 5*n)} // ggml's activations take little more than 4 bytes an element
	check(v.ours.Set(p.d, v.x))
	if p.activate == nil {
		copy(v.theirs, mmapio.Bytes(v.x))
	} else {
		C.convert(p.activate, pointer(v.x), pointer(v.theirs), C.int64_t(n))
	}
	return v
}

// theirs multiplies rows with v by ggml's function, passes times over.
func (p *dotPeer) theirs(dst []float32, rows []byte, v vector, passes int) {
	C.dots(p.f, (*C.float)(pointer(dst)), (*C.char)(pointer(rows)), C.int64_t(len(dst)), C.int64_t(len(rows)/len(dst)),
		C.int(len(v.x)), pointer(v.theirs), C.int64_t(passes))
}

// printDots prints the speed of products with rows of dotCols elements, a line for each peer: in the cache on one core.
// If beyond is set it also prints that of 256 MiB and of a matrix of 14336 rows, on all cores.
func (r *race) printDots(w io.Writer, peers []dotPeer, beyond bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "dot, %d-wide rows, in cache, one core: billions of weights a second, best of %d rounds\n\n", dotCols, r.rounds)
	fmt.Fprintln(tw, "TYPE\tours\tpeer\tratio\t peer")
	for _, p := range peers {
		const rows = 4
		v := p.vector(rand.New(rand.NewPCG(1, uint64(p.d))), dotCols)
		src, dst := p.rows(rows, dotCols), make([]float32, rows)
		dsts, activations := [][]float32{dst}, []*dot.Activation{v.ours}
		s := r.speeds(contest{
			func(passes int) {
				for range passes {
					check(dot.Mat(dsts, p.d, src, activations))
				}
			},
			func(passes int) { p.theirs(dst, src, v, passes) },
		}, rows*dotCols/1e9)
		fmt.Fprintf(tw, "%v\t%.1f\t%.1f\t%.2f\t %s\n", p.d, s[0], s[1], s[0]/s[1], p.name)
	}
	tw.Flush()
	if !beyond {
		return
	}
	cores := runtime.GOMAXPROCS(0)
	fmt.Fprintf(w, "\ndot, %d-wide rows, 256 MiB, %d cores: GB/s of stored bytes; read is the sum of all words\n\n", dotCols, cores)
	fmt.Fprintln(tw, "TYPE\tours\tpeer\tratio\tread\tours/read\t peer")
	for _, p := range peers {
		row := sizeOf(p.d, dotCols)
		r.compareMatrix(tw, p, 256<<20/row, dotCols, float64(256<<20/row*row)/1e9, besideReading)
	}
	tw.Flush()
	fmt.Fprintf(w, "\nmatrix of 14336 × 4096 times a vector, %d cores: rows a second\n\n", cores)
	fmt.Fprintln(tw, "TYPE\tours\tpeer\tratio\t peer")
	for _, p := range peers {
		r.compareMatrix(tw, p, 14336, dotCols, 14336, alone)
	}
	tw.Flush()
}

// rows returns rows of cols elements like a model's.
func (p *dotPeer) rows(rows, cols int) []byte {
	b := make([]byte, rows*sizeOf(p.d, cols))
	some := min(rows, 64) * sizeOf(p.d, cols)
	if p.d == layout.F32 {
		copy(b, mmapio.Bytes(normal(rand.New(rand.NewPCG(2, 2)), some/4)))
	} else {
		fillPlain(rand.New(rand.NewPCG(2, uint64(p.d))), p.d, b[:some])
	}
	tile(b, some)
	return b
}

// Modes of compareMatrix: products alone, or plain reading of the rows too.
const (
	alone         = false
	besideReading = true
)

// compareMatrix prints the speed of MatVec of package loader and of ggml's function on all cores, and with read that of
// reading the rows. A pass over the matrix makes units, in which speeds are given.
func (r *race) compareMatrix(w io.Writer, p dotPeer, rows, cols int, units float64, read bool) {
	src, dst := p.rows(rows, cols), make([]float32, rows)
	v := p.vector(rand.New(rand.NewPCG(1, uint64(p.d))), cols)
	var file bytes.Buffer
	file.Grow(len(src) + 1<<20)
	aw, err := apr2.NewWriter(&file, slices.Values([]layout.Tensor{{Name: []byte("w"), DType: p.d, Shape: []int{rows, cols}}}), &apr2.Options{
		Metadata: layout.Metadata{{Key: "apr_version", Value: "2.0.0"}, {Key: "model_type", Value: "bench"}, {Key: "architecture", Value: layout.Metadata{}}},
	})
	check(err)
	check(aw.WriteTensor(src))
	check(aw.Close())
	m, err := loader.OpenBytes(file.Bytes(), nil)
	check(err)
	defer m.Close()
	t, err := m.Tensor("w")
	check(err)
	src, err = t.Bytes() // the same memory for both
	check(err)
	size := len(src) / rows
	c := contest{
		func(passes int) {
			for range passes {
				check(t.MatVec(context.Background(), dst, v.x))
			}
		},
		func(passes int) {
			onEachCore(rows, func(lo, hi int) { p.theirs(dst[lo:hi], src[lo*size:hi*size], v, passes) })
		},
	}
	if read {
		c = append(c, func(passes int) {
			onEachCore(rows, func(lo, hi int) {
				C.total((*C.uint64_t)(pointer(src[lo*size:])), C.int64_t((hi-lo)*size/8), C.int64_t(passes))
			})
		})
	}
	s := r.speeds(c, units)
	if read {
		fmt.Fprintf(w, "%v\t%.1f\t%.1f\t%.2f\t%.1f\t%.2f\t %s\n", p.d, s[0], s[1], s[0]/s[1], s[2], s[0]/s[2], p.name)
	} else {
		fmt.Fprintf(w, "%v\t%.0f\t%.0f\t%.2f\t %s\n", p.d, s[0], s[1], s[0]/s[1], p.name)
	}
	runtime.GC()
}

// onEachCore calls f on every core, with an equal share of the numbers from 0 to rows-1.
func onEachCore(rows int, f func(lo, hi int)) {
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for i := range cores {
		lo, hi := rows*i/cores, rows*(i+1)/cores
		wg.Go(func() { f(lo, hi) })
	}
	wg.Wait()
}
