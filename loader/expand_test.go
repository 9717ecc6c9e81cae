package loader_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestExpandEveryWay compares all ways to a tensor's values with the whole of it expanded
// at once.
func TestExpandEveryWay(t *testing.T) {
	for _, d := range expandable {
		c := modeltest.Random("x", d, 3, 4, 768)
		testExpand(t, c, modeltest.APR2Model(t, nil, modeltest.Random("before", layout.U8, 5), c), placements, nil)
	}
}

// TestExpandAcrossReads has tensors that a file that is not mapped yields in several
// reads, none of which ends with a row.
func TestExpandAcrossReads(t *testing.T) {
	const rows, cols = 715, 768
	if rows*cols < 2*loader.ReadStep || loader.ReadStep%cols == 0 {
		t.Fatalf("%d values are too few for reads of %d", rows*cols, loader.ReadStep)
	}
	dtypes := []layout.DType{layout.F16, layout.I64, layout.Q6_K}
	if testmode.Brief() {
		dtypes = dtypes[:1]
	}
	for _, d := range dtypes {
		c := modeltest.Random("x", d, rows, cols)
		testExpand(t, c, modeltest.APR2Model(t, nil, modeltest.Random("before", layout.U8, 5), c), placements[2:4], nil)
	}
}

// testExpand compares all ways to the values of c, which is in file, with c expanded at once. The models are new, or have
// been read from before. check, if it is not nil, then gets the tensor.
func testExpand(t *testing.T, c modeltest.Tensor, file []byte, kinds []kind, check func(t *testing.T, x loader.Tensor)) {
	want := make([]float32, c.Elements())
	if err := dequant.Expand(c.DType, want, c.Data); err != nil {
		t.Fatal(err)
	}
	same := modeltest.SameFloats
	switch c.DType {
	case layout.F32, layout.F16, layout.BF16, layout.F8_E4M3, layout.F8_E5M2: // which carry NaNs over bit for bit
		same = modeltest.SameBits
	}
	for _, k := range kinds {
		t.Run(c.DType.String()+"/"+k.name, func(t *testing.T) {
			x := tensor(t, k.of(t, file, nil), "x").Stored()
			for name, expand := range expansions {
				for model, x := range map[string]loader.Tensor{"new": tensor(t, k.of(t, file, nil), "x").Stored(), "read from before": x} {
					if got, err := expand(x); err != nil {
						t.Errorf("%s: %v", name, err)
					} else if !same(got, want) {
						t.Errorf("%s gives other values of a model that is %s", name, model)
					}
				}
			}
			rng, value := rand.New(rand.NewPCG(1, uint64(c.DType))), make([]float32, 1)
			for range 30 {
				at := rng.Uint64N(c.Elements())
				if err := x.DequantizeRange(value, at); err != nil || !same(value, want[at:at+1]) {
					t.Errorf("value %d is %v, want %v, %v", at, value, want[at], err)
				}
			}
			if check != nil {
				check(t, x)
			}
		})
	}
}

// expansions are ways to all values of a tensor.
var expansions = func() map[string]func(x loader.Tensor) ([]float32, error) {
	inParts := func(total, cols uint64, read func(dst []float32, first, n uint64) error) ([]float32, error) { // total items of cols values each, in runs of random length
		rng := rand.New(rand.NewPCG(2, total))
		all := make([]float32, 0, total*cols)
		for first := uint64(0); first < total; {
			n := min(rng.Uint64N(total/3+2), total-first) // also none
			dst := make([]float32, n*cols)
			if err := read(dst, first, n); err != nil {
				return nil, err
			}
			all = append(all, dst...)
			first += n
		}
		return all, nil
	}
	values := func(n int) func(x loader.Tensor) ([]float32, error) { // with a buffer of n values
		return func(x loader.Tensor) (all []float32, err error) {
			buf := make([]float32, n)
			for run, err := range x.Values(buf) {
				if err != nil {
					return nil, err
				}
				part := run.Values
				if run.First != uint64(len(all)) {
					return nil, fmt.Errorf("value %d after %d", run.First, len(all))
				}
				if &part[0] != &buf[0] || len(part) < n && uint64(len(all)+len(part)) != x.Elements() {
					return nil, fmt.Errorf("%d values after %d, in another buffer: %v", len(part), len(all), &part[0] != &buf[0])
				}
				all = append(all, part...)
			}
			return all, nil
		}
	}
	return map[string]func(x loader.Tensor) ([]float32, error){
		"Float32s": loader.Tensor.Float32s,
		"Dequantize": func(x loader.Tensor) ([]float32, error) {
			dst := make([]float32, x.Elements())
			return dst, x.Dequantize(dst)
		},
		"DequantizeRows": func(x loader.Tensor) ([]float32, error) {
			cols := uint64(x.Shape()[len(x.Shape())-1])
			return inParts(x.Elements()/cols, cols, x.DequantizeRows)
		},
		"DequantizeRange": func(x loader.Tensor) ([]float32, error) {
			return inParts(x.Elements(), 1, func(dst []float32, first, _ uint64) error { return x.DequantizeRange(dst, first) })
		},
		"Values(1001)":      values(1001),
		"Values(100,000)":   values(100_000),
		"Values, rows of 1": func(x loader.Tensor) ([]float32, error) { return values(x.Shape()[len(x.Shape())-1])(x) },
		"Values, rows of 7": func(x loader.Tensor) ([]float32, error) { return values(7 * x.Shape()[len(x.Shape())-1])(x) },
		"WriteAs": func(x loader.Tensor) ([]float32, error) {
			var out bytes.Buffer
			_, err := x.WriteAs(context.Background(), &out, layout.F32)
			return kerneltest.Floats(out.Bytes()), err
		},
		"ReadAs": func(x loader.Tensor) ([]float32, error) {
			return inParts(x.Elements(), 1, func(dst []float32, first, n uint64) error {
				b := make([]byte, 4*n+first%2)[first%2:] // aligned or not
				err := x.ReadAs(context.Background(), b, layout.F32, first)
				copy(dst, kerneltest.Floats(b))
				return err
			})
		},
	}
}()

func TestValuesUntilBreak(t *testing.T) {
	x := tensor(t, openBytes(t, modeltest.SafeTensors(modeltest.Random("x", layout.F16, 10, 4)), nil), "x")
	for run := range x.Values(make([]float32, 12)) {
		if run.First == 12 {
			break // is safe
		}
	}
}

// TestFixtureValues compares with what the programs that wrote the fixtures say is in them.
func TestFixtureValues(t *testing.T) {
	compared := 0
	for _, path := range fixtures(t) {
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			m := openPath(t, path, opts)
			for _, w := range witness(t, path) {
				x := tensor(t, m, w.name)
				if _, scaled, _ := x.Scale(); scaled || w.first == nil {
					continue // TestScaledFixture has the scaled ones
				}
				values, err := x.Float32s()
				if err != nil || len(values) < len(w.first) || !modeltest.SameFloats(values[:len(w.first)], w.first) {
					t.Errorf("%s: %s: %v, want %v…, %v", path, w.name, values, w.first, err)
				}
				compared++
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d tensors compared", compared)
	}
}
