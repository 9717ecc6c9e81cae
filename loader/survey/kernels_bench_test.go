package survey

import (
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/moments"
)

// BenchmarkKernels works on values in a core's cache: what stats, its histograms and diff do
// with each value once it is expanded.
func BenchmarkKernels(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, chunk), make([]float32, chunk)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		y[i] = x[i] + float32(rng.NormFloat64()/100)
	}
	m := newSummary()
	h := newHistogram(-6, 6, 16)
	counts := make([]uint64, 16)
	var d Distance
	var codes moments.Codes
	for _, k := range []struct {
		name string
		run  func()
	}{
		{"measure", func() { measure(&m, x, 0, nil) }},
		{"measure and count", func() { measure(&m, x, 0, &codes) }},
		{"countInBins", func() { countInBins(h, counts, x) }},
		{"compare", func() { compare(&d, x, y, 0) }},
	} {
		b.Run(k.name, func(b *testing.B) {
			b.SetBytes(4 * chunk)
			for b.Loop() {
				k.run()
			}
		})
	}
}
