package survey_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/quantize"
)

// TestGaussianDB quantizes Gaussian values to every dtype of the table, and to those that it lacks.
func TestGaussianDB(t *testing.T) {
	const n = 64 * 1536
	rng := rand.New(rand.NewPCG(7, 8))
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for d := range layout.DType(255) {
		want := survey.GaussianDB(d)
		if !quantize.Supported(d) || d == layout.F32 {
			if !math.IsNaN(want) {
				t.Errorf("%v: %v dB, but it cannot be measured", d, want)
			}
			continue
		}
		size, err := d.Size([]int{n})
		if err != nil {
			t.Fatal(err)
		}
		c, err := dequant.NewCodec(d, layout.Quant{}, false)
		b := make([]byte, size)
		if err == nil {
			err = quantize.Encode(c, b, x, nil, 0)
		}
		if err == nil {
			err = c.Expand(y, b, 0, 0)
		}
		if err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		e := survey.ErrorsOf(x, y)
		if got := e.DB(); !(math.Abs(got-want) < 0.15) {
			t.Errorf("layout.%v: %.1f,", d, got)
		}
	}
}
