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
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// A dotPeer is ggml's product of one type, and the quantizer of its activations: nil for float32s.
type dotPeer struct {
	peer     // which runs nothing
	f        C.dot
	activate C.activate
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

// A vector is one vector for both sides.
type vector struct {
	x      []float32
	ours   *dot.Activation
	theirs []byte // ggml's activation, at most 4 bytes and a bit an element
}

var initialize = sync.OnceFunc(func() { C.ggml_cpu_init() })

func (p *dotPeer) vector(rng *rand.Rand, n int) vector { return p.prepared(normal(rng, n)) }

func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func (p *dotPeer) prepared(x []float32) vector {
	initialize()
	n := len(x)
	v := vector{x: x, theirs: make([]byte, 5*n)}
	var err error
	v.ours, err = dot.Prepare(p.d, v.x)
	check(err)
	if p.activate == nil {
		copy(v.theirs, mmapio.Bytes(v.x))
	} else {
		C.convert(p.activate, pointer(v.x), pointer(v.theirs), C.int64_t(n))
	}
	return v
}

// theirs multiplies rows, passes times over.
func (p *dotPeer) theirs(dst []float32, rows []byte, v vector, passes int) {
	C.dots(p.f, (*C.float)(pointer(dst)), (*C.char)(pointer(rows)), C.int64_t(len(dst)), C.int64_t(len(rows)/len(dst)),
		C.int(len(v.x)), pointer(v.theirs), C.int64_t(passes))
}

// printDots races products of 4096-wide rows: a row a type, in cache and far beyond, and the number of rows
// a second of one matrix.
func (r *race) printDots(w io.Writer, peers []dotPeer, beyond bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "dot, %d-wide rows, in cache, one core: billions of weights a second, best of %d rounds\n\n", dotCols, r.rounds)
	fmt.Fprintln(tw, "TYPE\tours\tpeer\tratio\t peer")
	for _, p := range peers {
		const rows = 4
		v := p.vector(rand.New(rand.NewPCG(1, uint64(p.d))), dotCols)
		src, dst := p.rows(rows, dotCols), make([]float32, rows)
		s := r.speeds(contest{
			func(passes int) {
				for range passes {
					check(dot.Rows(dst, p.d, src, v.ours))
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
		r.compareMatrix(tw, p, 256<<20/row, dotCols, float64(256<<20/row*row)/1e9, true)
	}
	tw.Flush()
	fmt.Fprintf(w, "\nmatrix of 14336 × 4096 times a vector, %d cores: rows a second\n\n", cores)
	fmt.Fprintln(tw, "TYPE\tours\tpeer\tratio\t peer")
	for _, p := range peers {
		r.compareMatrix(tw, p, 14336, dotCols, 14336, false)
	}
	tw.Flush()
}

// rows returns rows like a model's.
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

// compareMatrix lets MatVec of package loader compete with ggml's function on all cores, and with
// reading alone. A pass makes units units.
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

// wholeCols is the width of rows whose products are integers: few enough for all sums to stay below 2²⁴.
const wholeCols = 512

// wholeVector returns integers that are their own codes, under scales of 1 or -1.
func (p *dotPeer) wholeVector(rng *rand.Rand) vector {
	x := make([]float32, wholeCols)
	for i := range x {
		if x[i] = 127; i%32 > 0 {
			x[i] = float32(rng.IntN(255) - 127)
		}
	}
	return p.prepared(x)
}

// fillWhole makes blocks of random codes under scales of 1.
func fillWhole(rng *rand.Rand, d layout.DType, b []byte) {
	fillRandom(rng, b)
	for size := d.BlockBytes(); len(b) >= size; b = b[size:] {
		for _, at := range scalesAt[d] {
			putScale(d, b[at:], 0x3c00)
		}
		if d == layout.MXFP4 {
			b[0] = 128
		}
	}
}

// products compares p's type: ours against float64 sums of expanded rows with the quantized vector, within
// the bound that package dot states, and against ggml's within twice that. In every other round the sums are
// integers, and all three are equal.
func (j *judge) products(p dotPeer) func(*verdict) {
	return func(v *verdict) {
		const rows = 64
		rng := rand.New(rand.NewPCG(j.seed, uint64(p.d)<<16))
		perRow := dotCols / p.d.BlockElems()
		got, theirs := make([]float32, rows), make([]float32, rows)
		for v.compared < int64(max(1, j.blocks/perRow)) {
			x, whole := p.vector(rng, dotCols), v.compared/rows%2 == 1 && p.d.BlockElems() > 1
			if whole {
				x = p.wholeVector(rng)
			}
			w, src := make([]float32, len(x.x)), make([]byte, rows*sizeOf(p.d, len(x.x)))
			size := len(src) / rows
			switch {
			case p.d == layout.F32:
				copy(src, p.rows(rows, dotCols))
			case whole:
				fillWhole(rng, p.d, src)
			default:
				fillPlain(rng, p.d, src)
			}
			check(dot.Rows(got, p.d, src, x.ours))
			p.theirs(theirs, src, x, 1)
			for r := range got {
				check(dequant.Expand(p.d, w, src[r*size:][:size]))
				want, ggml, bound := x.exact(p, w, src[r*size:][:size])
				if whole {
					bound = 0
				}
				if d := math.Abs(float64(got[r]) - want); !(d <= bound) {
					v.mismatch(func() string { return fmt.Sprintf("%v, exact %v: %g off, bound %g", got[r], want, d, bound) })
				}
				if d := math.Abs(float64(theirs[r]) - ggml); !(d <= 2*bound) {
					v.mismatch(func() string { return fmt.Sprintf("ggml %v, exact %v: %g off, bound %g", theirs[r], ggml, d, 2*bound) })
				}
			}
			v.compared += rows
		}
	}
}

// exact returns the sums of products in float64, for our activation and for ggml's. These differ for halves alone.
// bound is that of the float32 sum's error.
func (x vector) exact(p dotPeer, w []float32, row []byte) (ours, ggml, bound float64) {
	var magnitude float64
	y := p.expand(x)
	for i, f := range w {
		m, add := 0.0, 0.0
		if d := p.d; d == layout.Q4_1 || d == layout.Q5_1 { // the offset meets the rounded sum, once a block
			m = half(row[i/32*d.BlockBytes()+2:])
			if i%32 == 0 {
				add = m * half(x.theirs[i/32*36+2:])
			}
		}
		ggml += (float64(f)-m)*y[i] + add
		magnitude += (math.Abs(float64(f))+math.Abs(m))*math.Abs(y[i]) + math.Abs(add)
		if p.activate == nil || x.ours.Type() != layout.F32 {
			ours = ggml
		} else {
			ours += float64(f) * float64(x.x[i])
		}
	}
	return ours, ggml, float64(len(w)/32+16) * 0x1p-24 * magnitude
}

func half(b []byte) float64 {
	var f [1]float32
	check(dequant.Expand(layout.F16, f[:], b[:2]))
	return float64(f[0])
}

// expand returns the values of ggml's activation.
func (p *dotPeer) expand(x vector) []float64 {
	n := len(x.x)
	f, d := make([]float32, n), x.ours.Type()
	if p.activate != nil && d == layout.F32 {
		d = p.d
	}
	check(dequant.Expand(d, f, x.theirs[:sizeOf(d, n)]))
	y := make([]float64, n)
	for i := range f {
		y[i] = float64(f[i])
	}
	return y
}
