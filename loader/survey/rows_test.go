package survey_test

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/survey"
)

// zeroed returns a tensor of ones whose rows of some numbers are zeros, but for one value that is NaN.
func zeroed(name string, d layout.DType, rows, columns int, zeros ...int) modeltest.Tensor {
	values := make([]float32, rows*columns)
	for i := range values {
		values[i] = 1
	}
	for _, row := range zeros {
		clear(values[row*columns:][:columns])
		values[row*columns+columns/2] = float32(math.NaN())
	}
	data := modeltest.Float32s(values...)
	if d == layout.BF16 {
		var halves []byte
		for i := range values {
			halves = append(halves, data[4*i+2:4*i+4]...)
		}
		data = halves
	}
	if d == layout.F64 {
		data = nil
		for _, v := range values {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(float64(v)))
		}
	}
	return modeltest.Tensor{Name: name, DType: d, Shape: []int{rows, columns}, Data: data}
}

// TestZeroRows: rows are counted that lie within a read, across several, and across what several workers read.
func TestZeroRows(t *testing.T) {
	cube := zeroed("cube", layout.F32, 6, 20, 1, 5)
	cube.Shape = []int{6, 4, 5}
	flat := zeroed("flat", layout.F32, 1, 20, 0)
	flat.Shape = []int{20}
	m := openBytes(t, modeltest.SafeTensors(
		zeroed("f32", layout.F32, 300, 1000, 0, 65, 131, 299), zeroed("bf16", layout.BF16, 300, 1000, 0, 65, 131, 299), zeroed("f64", layout.F64, 300, 1000, 65, 100),
		zeroed("wide", layout.F32, 3, 1<<20+7, 0, 1), zeroed("wide bf16", layout.BF16, 3, 1<<20+7, 1, 2), zeroed("narrow", layout.F32, 70_000, 1, 7, 65_536),
		zeroed("one row", layout.F32, 1, 100, 0), zeroed("none", layout.F32, 70, 100), cube, flat, modeltest.Tensor{Name: "empty", DType: layout.F32, Shape: []int{5, 0}},
	))
	want := map[string]uint64{"f32": 4, "bf16": 4, "f64": 2, "wide": 2, "wide bf16": 2, "narrow": 2, "cube": 2}
	for _, workers := range []int{1, 4} {
		stats, err := allStats(context.Background(), m, &survey.StatsOptions{Options: survey.Options{Workers: workers}})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stats {
			if name := s.Tensor.Name(); s.Err != nil || s.ZeroRows != want[name] {
				t.Errorf("%s: %d rows of zeros, want %d, %v", name, s.ZeroRows, want[name], s.Err)
			}
		}
	}
}

// TestShown: of plain integers, page and command show least, greatest and counts; of their differences no sums.
func TestShown(t *testing.T) {
	ints := func(data ...byte) []byte {
		return modeltest.SafeTensors(modeltest.Tensor{Name: "ids", DType: layout.U8, Shape: []int{2, 2}, Data: data}, floats("floats", []float32{float32(data[0]), 2, 3}))
	}
	a, b := openBytes(t, ints(0, 0, 7, 9)), openBytes(t, ints(1, 0, 7, 9))
	stats, err := allStats(context.Background(), a, &survey.StatsOptions{BySigma: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		isFloat, shown := s.Tensor.Name() == "floats", s.Shown()
		for i, f := range append([]float64{shown.Mean, shown.Std, shown.MaxSigma, shown.Kurtosis}, shown.Percentiles[:]...) {
			if math.IsNaN(f) == isFloat {
				t.Errorf("%s: figure %d is %v", s.Tensor.Name(), i, f)
			}
		}
		if (shown.BySigma != nil) != isFloat || !isFloat && (shown.Min != 0 || shown.Max != 9 || shown.Zeros != 2 || shown.Finite != 4 || s.Std == 0 || s.BySigma == nil) {
			t.Errorf("%+v of %+v", shown, s)
		}
	}
	pairs, err := allPairs(context.Background(), a, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		shown := p.Shown()
		for i, f := range []float64{shown.DB(), shown.RelativeRMS(), shown.Cosine(), shown.RMSE()} {
			if math.IsNaN(f) == (p.Name == "floats") {
				t.Errorf("%s: figure %d is %v", p.Name, i, f)
			}
		}
		if shown.MaxAbs != 1 || shown.Differing != 1 || p.DD != 1 {
			t.Errorf("%+v", shown)
		}
	}
}
