package loader_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// product multiplies rows of c with vectors by package dot, on one core.
func product(t *testing.T, c modeltest.Tensor, xs []float32, n int) []float32 {
	t.Helper()
	cols := len(xs) / n
	rows := int(c.Elements()) / cols
	want := make([]float32, n*rows)
	for i := range n {
		var a dot.Activation
		if err := cmp.Or(a.Set(c.DType, xs[i*cols:][:cols]), dot.Mat([][]float32{want[i*rows:][:rows]}, c.DType, c.Data, []*dot.Activation{&a})); err != nil {
			t.Fatal(err)
		}
	}
	return want
}

// TestMultiplyEveryWay holds products of tensors in every placement, and compressed ones, against package dot's.
func TestMultiplyEveryWay(t *testing.T) {
	ctx := t.Context()
	dtypes := expandable
	if testmode.Brief() {
		dtypes = []layout.DType{layout.F32, layout.F16, layout.Q8_0, layout.Q4_K, layout.IQ3_S}
	}
	for _, d := range dtypes {
		c := modeltest.Random("x", d, 3, 5, 768)
		for _, n := range []int{1, 3} {
			xs := normalFloats(n * 768)
			want, got := product(t, c, xs, n), make([]float32, n*15)
			file := modeltest.APR2Model(t, nil, c)
			for _, p := range placements {
				x := tensor(t, p.of(t, file, nil), "x").Stored()
				if err := x.MatMul(ctx, got, xs, n); err != nil {
					t.Fatalf("%v %s: %v", d, p.name, err)
				}
				wantFloats(t, d.String()+" "+p.name, got, want)
			}
			x := tensor(t, openBytes(t, lz4Model(t, c), nil), "x").Stored()
			if err := x.MatMul(ctx, got, xs, n); err != nil {
				t.Fatalf("%v LZ4: %v", d, err)
			}
			wantFloats(t, d.String()+" LZ4", got, want)
		}
	}
}

// TestMultiplyLarge shares rows out to all cores, in several steps where they are read.
func TestMultiplyLarge(t *testing.T) {
	for _, d := range []layout.DType{layout.Q4_0, layout.F16, layout.IQ2_S} {
		c := modeltest.Random("x", d, 3001, 1024)
		xs := normalFloats(2 * 1024)
		want := product(t, c, xs, 2)
		file := modeltest.APR2Model(t, nil, c)
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			got := make([]float32, 2*3001)
			if err := tensor(t, openPath(t, modeltest.Write(t, "m", file), opts), "x").MatMul(t.Context(), got, xs, 2); err != nil {
				t.Fatal(err)
			}
			wantFloats(t, d.String(), got, want)
		}
	}
}

// TestMultiplyScaled multiplies integers that the file gives a scale: without a zero point as they are,
// else expanded.
func TestMultiplyScaled(t *testing.T) {
	md := quantization("i8 0.25, zero 0.5, i16 0.5",
		"zero -3")
	cs := []modeltest.Tensor{modeltest.Random("i8", layout.I8, 5, 64), modeltest.Random("zero", layout.I8, 5, 64), modeltest.Random("i16", layout.I16, 5, 64)}
	m := openBytes(t, modeltest.APR2Model(t, md, cs...), nil)
	xs := normalFloats(64)
	for _, c := range cs {
		x := tensor(t, m, c.Name)
		values, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 5)
		if err := x.MatVec(t.Context(), got, xs); err != nil {
			t.Fatal(err)
		}
		for r, g := range got {
			var want, magnitude float64
			for i, v := range xs {
				p := float64(values[r*64+i]) * float64(v)
				want, magnitude = want+p, magnitude+math.Abs(p)
			}
			if math.Abs(float64(g)-want) > 20*0x1p-24*magnitude {
				t.Errorf("%s: row %d is %v, want %v", c.Name, r, g, want)
			}
		}
	}
}

// TestMultiplyLogical multiplies weights of quantized checkpoints as their values are multiplied: of mapped files and of read ones.
func TestMultiplyLogical(t *testing.T) {
	logical := 0
	for i, dir := range slices.Repeat(checkpoints(t)[:8], 2) {
		for x := range openPath(t, dir, &loader.Options{NoMap: i >= 8}).Tensors() {
			shape := x.Shape()
			if x.Scheme() == nil || len(shape) != 2 {
				continue
			}
			logical++
			values, err := x.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			xs, got, want := normalFloats(shape[1]), make([]float32, shape[0]), make([]float32, shape[0])
			var a dot.Activation
			if err := errors.Join(a.Set(layout.F32, xs), dot.Floats(want, values, &a), x.MatVec(t.Context(), got, xs)); err != nil {
				t.Fatal(err)
			}
			wantFloats(t, dir+" "+x.Name(), got, want)
		}
	}
	if logical < 16 {
		t.Errorf("%d logical weights", logical)
	}
}

func TestMultiplyErrors(t *testing.T) {
	m := openBytes(t, modeltest.APR2Model(t, nil, modeltest.Random("x", layout.Q4_0, 4, 64), modeltest.Random("none", layout.F32, 0, 7)), nil)
	x := tensor(t, m, "x")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	nan := normalFloats(64)
	nan[5] = float32(math.NaN())
	dst, xs := make([]float32, 4), normalFloats(64)
	for name, c := range map[string]struct{ err, want error }{
		"long vector":   {x.MatVec(t.Context(), dst, normalFloats(65)), loader.ErrRange},
		"short result":  {x.MatVec(t.Context(), dst[:3], xs), loader.ErrRange},
		"other number":  {x.MatMul(t.Context(), dst, xs, 2), loader.ErrRange},
		"negative":      {x.MatMul(t.Context(), dst, xs, -1), loader.ErrRange},
		"NaN":           {x.MatVec(t.Context(), dst, nan), dequant.ErrNotFinite},
		"ended context": {x.MatVec(ended, dst, xs), context.Canceled},
		"no vectors":    {x.MatMul(t.Context(), nil, nil, 0), nil},
		"no rows":       {tensor(t, m, "none").MatVec(t.Context(), nil, normalFloats(7)), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	m.Close()
	if err := x.MatVec(t.Context(), dst, xs); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// endingReader cancels a context with its first read of tensors.
type endingReader struct {
	io.ReaderAt
	from   int64
	cancel func()
}

func (r *endingReader) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.from {
		r.cancel()
	}
	return r.ReaderAt.ReadAt(p, off)
}

// TestMultiplyFromAfar reads a tensor through a reader, and through one that keeps what it reads, until the context ends.
func TestMultiplyFromAfar(t *testing.T) {
	c := modeltest.Random("x", layout.Q8_0, 9000, 1024)
	path := modeltest.Write(t, "m", modeltest.APR2Model(t, nil, c))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	ctx, cancel := context.WithCancel(t.Context())
	r := &endingReader{ReaderAt: f, from: math.MaxInt64, cancel: cancel}
	m, err := loader.OpenReaderAt(t.Context(), r, info.Size(), nil)
	x := tensor(t, modeltest.Opened(t, m, err), "x")
	xs, got := normalFloats(1024), make([]float32, 9000)
	if err := x.MatVec(ctx, got, xs); err != nil {
		t.Fatal(err)
	}
	want := product(t, c, xs, 1)
	wantFloats(t, "from afar", got, want)
	near := tensor(t, newDistant(path, must(os.ReadFile(path))(t)).backed(t).open(t, nil), "x")
	for _, way := range []string{"through a cache", "from the cache"} {
		clear(got)
		if err := near.MatVec(ctx, got, xs); err != nil {
			t.Fatal(err)
		}
		wantFloats(t, way, got, want)
	}
	r.from = int64(x.Offset())
	if err := x.MatVec(ctx, got, xs); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
}

// TestMultiplyAllocatesNothing once it has run: on one core or several, from a mapping, a file that is read, compressed blocks, and
// for weights of quantized checkpoints.
func TestMultiplyAllocatesNothing(t *testing.T) {
	if testmode.ChecksPointers() || testmode.Races() {
		t.Skip("pools forget under the race detector")
	}
	cs := []modeltest.Tensor{modeltest.Random("small", layout.Q4_K, 8, 512), modeltest.Random("large", layout.Q4_0, 2048, 512), modeltest.Random("tiles", layout.IQ2_XS, 8, 512)}
	models := map[string]*loader.Model{
		"in memory":  openBytes(t, modeltest.APR2Model(t, nil, cs...), nil),
		"compressed": openBytes(t, lz4Model(t, cs...), nil),
	}
	if runtime.GOARCH != "wasm" { // where the host's files are objects
		path := modeltest.Write(t, "m", modeltest.APR2Model(t, nil, cs...))
		models["mapped"], models["read"] = openPath(t, path, nil), openPath(t, path, &loader.Options{NoMap: true})
		for _, dir := range checkpoints(t)[:8] {
			models[dir] = openPath(t, dir, nil)
		}
	}
	for name, m := range models {
		for x := range m.Tensors() {
			shape := x.Shape()
			if len(shape) != 2 {
				continue
			}
			rows, cols := shape[0], shape[1]
			dst, xs := make([]float32, 3*rows), normalFloats(3*cols)
			run := func() {
				if err := errors.Join(x.MatVec(t.Context(), dst[:rows], xs[:cols]), x.MatMul(t.Context(), dst, xs, 3)); err != nil {
					t.Fatal(err)
				}
			}
			run()
			if n := testing.AllocsPerRun(50, run); n > 0 {
				t.Errorf("%s, %s: %v allocations", name, x.Name(), n)
			}
		}
	}
}

// normalFloats returns n floats of the standard normal distribution, the same in every run.
func normalFloats(n int) []float32 {
	rng := rand.New(rand.NewPCG(12, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// wantFloats ends the test if got and want, which what names, differ: see modeltest.Differ.
func wantFloats(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	if i := modeltest.Differ(got, want); i >= 0 {
		t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
	}
}

// TestMatVecFar: rows from afar come in order, by large requests. How long compressed blocks are is then read with them.
func TestMatVecFar(t *testing.T) {
	c := modeltest.Finite("x", layout.F16, 4096, 4096)
	for name, file := range map[string][]byte{"raw": modeltest.SafeTensors(c), "lz4": lz4Model(t, c)} {
		d := newDistant("m", file)
		x := tensor(t, d.open(t, nil), "x")
		want, got := make([]float32, c.Shape[0]), make([]float32, c.Shape[0])
		vector := slices.Repeat([]float32{1, -2}, c.Shape[1]/2)
		d.traffic.reset()
		err := x.MatVec(t.Context(), got, vector)
		if n := d.traffic.requests.Load(); n > 4 || err != nil {
			t.Errorf("%s: %d requests for 32 MiB; %v", name, n, err)
		}
		near, err := loader.OpenBytes(file, nil)
		near = modeltest.Opened(t, near, err)
		if err := tensor(t, near, "x").MatVec(t.Context(), want, vector); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: other products; %v", name, err)
		}
	}
}

// TestMatVecLeavesValuesUnused: rows that are multiplied as they are stored are no use of the values in the cache, which would keep these there.
func TestMatVecLeavesValuesUnused(t *testing.T) {
	file := modeltest.SafeTensors(modeltest.Finite("x", layout.BF16, 64, 64), modeltest.Finite("q.weight", layout.F8_E4M3, 64, 64), modeltest.Finite("q.weight_scale", layout.F32))
	m, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(file), int64(len(file)), nil)
	m = modeltest.Opened(t, m, err)
	for name, uses := range map[string]uint64{"x": 0, "q.weight": 1} {
		x := tensor(t, m, name)
		if _, err := x.Float32s(); err != nil {
			t.Fatal(err)
		}
		before := m.Stats().Hits
		if err := x.MatVec(t.Context(), make([]float32, 64), make([]float32, 64)); err != nil || m.Stats().Hits != before+uses {
			t.Errorf("%s: %d uses, %v", name, m.Stats().Hits-before, err)
		}
	}
}
