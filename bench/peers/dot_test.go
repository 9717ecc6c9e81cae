package peers

import (
	"math/rand/v2"
	"unsafe"

	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// A dotPeer multiplies rows of one type by a function of ggml.
type dotPeer struct {
	peer                    // its type and name; run is nil
	f        unsafe.Pointer // the product of a row and an activation
	activate unsafe.Pointer // quantizes activations; nil for float32s
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
		list = append(list, dotPeer{peer{d: d, name: name}, routine(name), routine("quantize_row_" + of + "_ref")})
	}
	return append(list,
		dotPeer{peer{d: layout.F32, name: "ggml_vec_dot_f32"}, routine("ggml_vec_dot_f32"), nil},
		dotPeer{peer{d: layout.F16, name: "ggml_vec_dot_f16"}, routine("ggml_vec_dot_f16"), routine("ggml_cpu_fp32_to_fp16")},
		dotPeer{peer{d: layout.BF16, name: "ggml_vec_dot_bf16"}, routine("ggml_vec_dot_bf16"), routine("ggml_fp32_to_bf16_row_ref")})
}()

// dotCols is the width of rows.
const dotCols = 4096

// A vector is a vector with the activations that package dot and ggml make of it.
type vector struct {
	x      []float32
	ours   *dot.Activation
	theirs []byte
}

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
	n := len(x)
	v := vector{x: x, ours: new(dot.Activation), theirs: make([]byte, 5*n)} // ggml's activations take little more than 4 bytes an element
	check(v.ours.Set(p.d, v.x))
	if p.activate == nil {
		copy(v.theirs, mmapio.Bytes(v.x))
	} else {
		repeat(p.activate, pointer(v.x), pointer(v.theirs), n, 1)
	}
	return v
}

// theirs multiplies rows with v by ggml's function, passes times over.
func (p *dotPeer) theirs(dst []float32, rows []byte, v vector, passes int) {
	repeatDots(p.f, dst, rows, len(v.x), v.theirs, passes)
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
