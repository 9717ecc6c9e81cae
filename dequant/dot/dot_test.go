package dot_test

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

func vector(n int) []float32 {
	rng := rand.New(rand.NewPCG(9, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func prepare(t testing.TB, d layout.DType, x []float32) *dot.Activation {
	t.Helper()
	a, err := dot.Prepare(d, x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// quantized returns rows of d that dequant wrote.
func quantized(t testing.TB, d layout.DType, n int) []byte {
	t.Helper()
	b := make([]byte, n/d.BlockElems()*d.BlockBytes())
	c, err := dequant.NewCodec(d, layout.Quant{}, false)
	if err := cmp.Or(err, quantize.Encode(c, b, vector(n), nil, 1)); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestByHand multiplies blocks assembled from the tables of ggml-common.h.
func TestByHand(t *testing.T) {
	x := make([]float32, 32)
	for i := range x {
		x[i] = float32(i%2*2-1) * 127 // codes are themselves, the scale is 1
	}
	x[0], x[16] = 3, 5
	q4 := make([]byte, 18)
	q4[1] = 0x40 // 2
	for i := range 16 {
		q4[2+i] = 0x88 // 0
	}
	q4[2] = 0xf0 // -8 for x[0], 7 for x[16]
	q8 := make([]byte, 34)
	q8[1], q8[2], q8[18] = 0xbc, 0x80, 10 // -1, -128, 10
	q41 := make([]byte, 20)
	q41[1], q41[3], q41[4] = 0x3c, 0x3c, 0x21 // 1, 1, codes 1 and 2
	for _, c := range []struct {
		d    layout.DType
		row  []byte
		want float32
	}{
		{layout.Q4_0, q4, 2 * (-8*3 + 7*5)},
		{layout.Q8_0, q8, -(-128*3 + 10*5)},
		{layout.Q4_1, q41, 1*3 + 2*5 + (3 + 5 + 127 + 127)},
	} {
		var got [1]float32
		if err := dot.Rows(got[:], c.d, c.row, prepare(t, c.d, x)); err != nil || got[0] != c.want {
			t.Errorf("%v: %v, %v, want %v", c.d, got[0], err, c.want)
		}
	}
}

// TestEveryF8 multiplies every code with 1.
func TestEveryF8(t *testing.T) {
	x := make([]float32, 32)
	x[0] = 1
	for _, d := range []layout.DType{layout.F8_E4M3, layout.F8_E5M2} {
		rows, codes := make([]byte, 256*32), make([]byte, 256)
		for c := range 256 {
			rows[32*c], codes[c] = byte(c), byte(c)
		}
		got, want := make([]float32, 256), make([]float32, 256)
		if err := errors.Join(dequant.Expand(d, want, codes), dot.Rows(got, d, rows, prepare(t, d, x))); err != nil {
			t.Fatal(err)
		}
		for c := range got {
			if got[c] != want[c] && got[c] == got[c] {
				t.Errorf("%v %#x: %v, want %v", d, c, got[c], want[c])
			}
			if want[c] != want[c] && got[c] == got[c] {
				t.Errorf("%v %#x: %v, want NaN", d, c, got[c])
			}
		}
	}
}

// TestMat has the products of each vector alone, and the bytes of as many rows as tiles hold.
func TestMat(t *testing.T) {
	for _, d := range []layout.DType{layout.Q4_0, layout.Q6_K, layout.F32, layout.F16, layout.IQ2_XS} {
		const rows, cols, vectors = 37, 768, 5
		src := make([]byte, rows*cols/d.BlockElems()*d.BlockBytes())
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range src {
			src[i] = byte(rng.Uint32()) &^ 0x40 // no NaN in any of these types
		}
		var as []*dot.Activation
		var got [][]float32
		for v := range vectors {
			as = append(as, prepare(t, d, vector(cols * (v + 1))[v*cols:]))
			got = append(got, make([]float32, rows))
		}
		if err := dot.Mat(got, d, src, as); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, rows)
		for v, a := range as {
			if err := dot.Rows(want, d, src, a); err != nil {
				t.Fatal(err)
			}
			for r := range want {
				if math.Float32bits(got[v][r]) != math.Float32bits(want[r]) {
					t.Fatalf("%v: row %d of vector %d is %v, want %v", d, r, v, got[v][r], want[r])
				}
			}
		}
	}
}

// TestFloats multiplies float32s as Rows does their bytes.
func TestFloats(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 100, 8192, 8193, 20000} {
		rows, src := vector(3*n), quantized(t, layout.F32, 3*n)
		a := prepare(t, layout.F32, vector(n))
		got, want := []float32{9, 9, 9}, []float32{8, 8, 8}
		if err := errors.Join(dot.Floats(got, rows, a), dot.Rows(want, layout.F32, src, a)); err != nil {
			t.Fatal(err)
		}
		for r := range got {
			if got[r] != want[r] {
				t.Errorf("%d elements: row %d is %v, want %v", n, r, got[r], want[r])
			}
		}
	}
}

func TestErrors(t *testing.T) {
	q, f := prepare(t, layout.Q4_0, vector(64)), prepare(t, layout.F32, vector(64))
	dst, none := make([]float32, 2), prepare(t, layout.Q4_0, nil)
	inf := vector(64)
	inf[40] = float32(math.Inf(1))
	nan := vector(256)
	nan[3] = float32(math.NaN())
	huge := vector(32)
	huge[0] = 1e7
	prep := func(d layout.DType, x []float32) error { _, err := dot.Prepare(d, x); return err }
	for _, c := range []struct {
		name string
		err  error
		is   error
		says string
	}{
		{"short rows", dot.Rows(dst, layout.Q4_0, make([]byte, 71), q), dequant.ErrLength, "71 bytes are not 2 rows of 36 bytes"},
		{"long rows", dot.Rows(dst, layout.Q4_0, make([]byte, 108), q), dequant.ErrLength, "108 bytes"},
		{"no rows", dot.Rows(nil, layout.Q4_0, make([]byte, 36), q), dequant.ErrLength, "36 bytes are not 0 rows"},
		{"other activation", dot.Rows(dst, layout.Q4_0, make([]byte, 72), f), nil, "rows of Q4_0 take an activation of Q8_0, not of F32"},
		{"zero activation", dot.Rows(dst, layout.F32, nil, new(dot.Activation)), nil, "not of"},
		{"superblocks", dot.Rows(dst, layout.NVFP4, nil, prepare(t, layout.Q4_0, vector(32))), dequant.ErrLength, "not in blocks of 64"},
		{"head", dot.Rows(dst, layout.APR_Q8, nil, f), errors.ErrUnsupported, "APR_Q8"},
		{"no type", prep(0, nil), errors.ErrUnsupported, "no products"},
		{"part of a block", prep(layout.Q4_K, vector(32)), dequant.ErrLength, "32 elements is not in blocks of 256"},
		{"infinity", prep(layout.Q4_0, inf), dequant.ErrNotFinite, "Q8_0 of elements 32 to 63"},
		{"NaN", prep(layout.Q4_K, nan), dequant.ErrNotFinite, "Q8_K of elements 0 to 255"},
		{"huge", prep(layout.Q4_0, huge), dequant.ErrNotFinite, "binary16"},
		{"other lengths", dot.Mat([][]float32{dst, dst}, layout.F32, make([]byte, 512), []*dot.Activation{f, prepare(t, layout.F32, vector(32))}), dequant.ErrLength, "512 bytes are not 2 rows of 128 bytes"},
		{"no columns", dot.Mat([][]float32{dst[:1], dst}, layout.Q4_0, nil, []*dot.Activation{none, none}), dequant.ErrLength, "vectors of 0 and 0 elements, for 1 and 2 products"},
		{"vectors", dot.Mat(make([][]float32, 2), layout.F32, nil, []*dot.Activation{f}), dequant.ErrLength, "2 vectors"},
		{"rows in memory", dot.Floats(dst, make([]float32, 65), f), dequant.ErrLength, "65 elements"},
		{"quantized in memory", dot.Floats(dst, make([]float32, 128), q), nil, "Q8_0"},
	} {
		if c.err == nil || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v, want one that wraps %v and says %q", c.name, c.err, c.is, c.says)
		}
	}
	if err := prep(layout.F32, nan); err != nil {
		t.Errorf("floats may be NaN: %v", err)
	}
	if err := dot.Mat(nil, layout.F32, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestNothingAllocated: neither Mat nor a second Set of the same length.
func TestNothingAllocated(t *testing.T) {
	if testmode.ChecksPointers() || testmode.Races() {
		t.Skip("the portable loops allocate then, and pools forget")
	}
	for _, d := range []layout.DType{layout.Q4_0, layout.F32} {
		x, dst := vector(512), [][]float32{make([]float32, 4), make([]float32, 4)}
		src := quantized(t, d, 4*512)
		a := prepare(t, d, x)
		as := []*dot.Activation{a, a}
		if n := testing.AllocsPerRun(100, func() {
			if err := errors.Join(a.Set(d, x), dot.Mat(dst[:1], d, src, as[:1]), dot.Mat(dst, d, src, as)); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations", d, n)
		}
	}
}
