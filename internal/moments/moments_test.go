package moments

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

// eachLevel runs f with every level in turn as the active one.
func eachLevel(t testing.TB, f func(name string)) {
	defer func(was level) { active = was }(active)
	for _, active = range levels {
		f(active.name)
	}
}

// numbers returns n numbers of many magnitudes, zeros of both signs among them.
func numbers(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := kerneltest.Aligned(n, int(seed%16))
	for i := range x {
		switch rng.IntN(16) {
		case 0:
			x[i] = float32(math.Copysign(0, rng.NormFloat64()))
		case 1:
			x[i] = math.Float32frombits(rng.Uint32() &^ (1 << 30)) // small, subnormal too
		case 2:
			x[i] = float32(rng.NormFloat64() * 1e30)
		default:
			x[i] = float32(rng.NormFloat64())
		}
	}
	return x
}

// TestLevels holds every level against the portable loops, bit for bit, at all lengths around a step and at more than a call.
func TestLevels(t *testing.T) {
	lengths := []int{1000, 4096, simd.MaxCall + 100}
	for n := range 100 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		a, b := numbers(n, uint64(n)), numbers(n, uint64(n+7))
		copy(b[n/2:], a[n/2:])
		active = levels[0]
		powers, pairs := PowersOf(a, 0.25, nil), PairsOf(a, b, 1.5)
		var codes Codes
		for _, x := range a {
			codes[math.Float32bits(x)>>16]++
		}
		eachLevel(t, func(name string) {
			if got := PowersOf(a, 0.25, nil); got != powers {
				t.Errorf("%s: %d numbers: %+v, want %+v", name, n, got, powers)
			}
			var counted Codes
			if got := PowersOf(a, 0.25, &counted); got != powers || counted != codes {
				t.Errorf("%s: %d numbers are counted wrongly: %+v, want %+v", name, n, got, powers)
			}
			if got := PairsOf(a, b, 1.5); got != pairs {
				t.Errorf("%s: %d pairs: %+v, want %+v", name, n, got, pairs)
			}
			if got := PairsOf(a, b, math.Inf(1)); got.Exceeding != 0 {
				t.Errorf("%s: %d pairs beyond infinity", name, got.Exceeding)
			}
		})
	}
	active = levels[len(levels)-1]
}

// TestExact holds the definition to exact sums.
func TestExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	a, b := make([]float32, 777), make([]float32, 777)
	for i := range a {
		a[i], b[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
	}
	const pivot = 0.5
	var want [8]big.Float
	add := func(to int, factors ...float64) {
		p := big.NewFloat(1).SetPrec(2000)
		for _, f := range factors {
			p.Mul(p, big.NewFloat(f))
		}
		want[to].SetPrec(2000).Add(&want[to], p)
	}
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		d := x - pivot
		add(0, d)
		add(1, d, d)
		add(2, d, d, d)
		add(3, d, d, d, d)
		add(4, x, x)
		add(5, y, y)
		add(6, x, y)
		add(7, x-y, x-y)
	}
	p, q := PowersOf(a, pivot, nil), PairsOf(a, b, 0)
	for i, got := range []float64{p.Sum, p.Squares, p.Cubes, p.Fourths, q.AA, q.BB, q.AB, q.DD} {
		if w, _ := want[i].Float64(); math.Abs(got-w) > 1e-12*(1+math.Abs(w)) {
			t.Errorf("sum %d: %v, want %v", i, got, w)
		}
	}
	wide := func(v []float32) (w []float64) {
		for _, x := range v {
			w = append(w, float64(x))
		}
		return w
	}
	if PowersOf(wide(a), pivot, nil) != p || PairsOf(wide(a), wide(b), 0) != q {
		t.Error("other sums of float64s")
	}
}

// TestNotFinite: one NaN or infinity, wherever it is, makes the sum that tells of it no number.
func TestNotFinite(t *testing.T) {
	eachLevel(t, func(name string) {
		for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for i := range 40 {
				a, b := make([]float32, 40), make([]float32, 40)
				a[i] = float32(odd)
				if p := PowersOf(a, 0, nil); p.Sum-p.Sum == 0 {
					t.Errorf("%s: %v at %d: the sum is %v", name, odd, i, p.Sum)
				}
				for range 2 { // infinities that are equal too
					if p := PairsOf(a, b, 0); p.DD-p.DD == 0 {
						t.Errorf("%s: %v at %d: the sum is %v", name, odd, i, p.DD)
					}
					b[i] = a[i]
				}
			}
		}
	})
}

// BenchmarkMoments counts the bytes of one slice, which is in the first cache.
func BenchmarkMoments(b *testing.B) {
	x, y := numbers(4096, 1), numbers(4096, 2)
	var codes Codes
	eachLevel(b, func(name string) {
		for work, f := range map[string]func(){"powers": func() { PowersOf(x, 0, nil) }, "count": func() { PowersOf(x, 0, &codes) }, "pairs": func() { PairsOf(x, y, 1) }} {
			b.Run(fmt.Sprintf("%s/%s", work, name), func(b *testing.B) {
				b.SetBytes(4 * 4096)
				for b.Loop() {
					f()
				}
			})
		}
	})
}
