package survey

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// Against sums in 400 bits: a mean that dwarfs the deviation, a first value that dwarfs all
// others, and values that cancel each other.
func TestSummaryExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, value := range map[string]func(i int) float32{
		"normal":  func(int) float32 { return float32(rng.NormFloat64()) },
		"far":     func(int) float32 { return 1e7 + float32(rng.IntN(3)) },
		"outlier": func(i int) float32 { return float32(rng.NormFloat64()) + float32(oneIf(i == 0))*1e30 },
		"cancel":  func(i int) float32 { return float32(1-2*(i%2)) * 3e38 },
		"tiny":    func(int) float32 { return math.Float32frombits(uint32(rng.IntN(1000))) },
		"drift":   func(i int) float32 { return float32(i) },
	} {
		const n = 3*mergeStep + 1001
		v := make([]float32, n)
		for i := range v {
			v[i] = value(i)
		}
		mean, m2 := exactSums(v)
		m := newSummary()
		for first := 0; first < n; first += 5000 {
			measure(&m, v[first:min(first+5000, n)], uint64(first), nil)
		}
		// No mean is known better than float64 can hold it, nor are distances from it.
		const eps = 0x1p-52
		std := math.Sqrt(m2 / n)
		if math.Abs(m.mean-mean) > 4*eps*max(math.Abs(mean), std) || math.Abs(m.m2-m2) > eps*max(1000, math.Abs(mean)/std)*m2 || m.n != n {
			t.Errorf("%s: mean %v, squares %v; want %v, %v", name, m.mean, m.m2, mean, m2)
		}
	}
}

func exactSums(v []float32) (mean, m2 float64) {
	real := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
	sum := real(0)
	for _, x := range v {
		sum.Add(sum, real(float64(x)))
	}
	average := new(big.Float).Quo(sum, real(float64(len(v))))
	squares := real(0)
	for _, x := range v {
		d := new(big.Float).Sub(real(float64(x)), average)
		squares.Add(squares, d.Mul(d, d))
	}
	mean, _ = average.Float64()
	m2, _ = squares.Float64()
	return mean, m2
}

// Whatever the range, every value is in the bin whose edges it lies between.
func TestHistogramEdges(t *testing.T) {
	for _, r := range []struct{ lo, hi float64 }{
		{-1, 1}, {0, 0.1}, {1e9, 1e9 + 1e-5}, {0, 5e-324}, {-math.MaxFloat64, math.MaxFloat64}, {-3, -3}, {0, 255}, {1, math.Nextafter(1, 2)},
	} {
		for _, bins := range []int{1, 2, 7, 16, maxBins} {
			h := newHistogram(r.lo, r.hi, bins)
			for i := range 1000 {
				share := float64(i) / 999
				x := min(max(r.lo*(1-share)+r.hi*share, r.lo), r.hi)
				counts := make([]uint64, len(h.edges)-1)
				countInBins(h, counts, []float64{x})
				b := slices.Index(counts, 1)
				if b < 0 || x < h.edges[b] || x > h.edges[b+1] || x == h.edges[b+1] && b != len(counts)-1 {
					t.Fatalf("%v, %d bins: %v is in %d", r, bins, x, b)
				}
			}
			for _, x := range []float64{math.Inf(-1), math.Nextafter(r.lo, math.Inf(-1)), math.Nextafter(r.hi, math.Inf(1)), math.Inf(1), math.NaN()} {
				counts := make([]uint64, len(h.edges)-1)
				if countInBins(h, counts, []float64{x}); slices.Max(counts) > 0 {
					t.Errorf("%v, %d bins: %v is in one", r, bins, x)
				}
			}
		}
	}
}

// TestCompareBatches: largest distances, wherever they are, and counts are those of one pass over all pairs.
func TestCompareBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		a, b := make([]float32, 20*mergeStep+rng.IntN(mergeStep)), make([]float32, 21*mergeStep)
		b = b[:len(a)]
		for i := range a {
			a[i] = float32(rng.NormFloat64())
			b[i] = a[i]
			if rng.IntN(3) == 0 {
				b[i] += float32(rng.NormFloat64() * rng.Float64() / 100)
			}
		}
		for range 5 {
			a[rng.IntN(len(a))] = float32([]float64{0, math.NaN(), math.Inf(1), 1e-30, 100}[rng.IntN(5)])
		}
		got, want := Distance{}, differences(a, b, 10)
		compare(&got, a, b, 10)
		for _, sums := range [][2]*float64{{&got.AA, &want.AA}, {&got.BB, &want.BB}, {&got.AB, &want.AB}, {&got.DD, &want.DD}} {
			if math.Abs(*sums[0]-*sums[1]) > 1e-9*math.Abs(*sums[1]) {
				t.Errorf("the sum is %v, want %v", *sums[0], *sums[1])
			}
			*sums[0] = *sums[1]
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
