package quantize

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/tensormap/tensormap/internal/block"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// TestFitted holds the places that assembly knows.
func TestFitted(t *testing.T) {
	var f fitted
	if unsafe.Offsetof(f.scales) != 64 || unsafe.Offsetof(f.seconds) != 128 || unsafe.Offsetof(f.inverse) != 192 ||
		unsafe.Offsetof(f.lowest) != 256 || unsafe.Offsetof(f.spare) != 320 || unsafe.Offsetof(f.rows) != 512 {
		t.Error("the fields of fitted have moved")
	}
}

// fitInputs returns elements of sixteen fits: weights of models, and what breaks sums, quotients and comparisons.
func fitInputs(rng *rand.Rand, elems, kind int) []float32 {
	x := make([]float32, lanes*elems)
	specials := []float32{0, float32(math.Copysign(0, -1)), 1e-45, 1e-38, 1e-20, 1e-16, 1e10, 1e38, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN())}
	for l := range lanes {
		scale := float32(math.Ldexp(1, rng.IntN(20)-10))
		if kind > 1 {
			scale = specials[rng.IntN(len(specials))]
		}
		for i := range elems {
			v := &x[l*elems+i]
			switch *v = float32(rng.NormFloat64()) * scale; {
			case kind == 1: // ties, and equal magnitudes
				*v = float32(rng.IntN(9)-4) * 0.5
			case kind == 3 && rng.IntN(8) == 0:
				*v = specials[rng.IntN(len(specials))] * float32(1-2*rng.IntN(2))
			case kind == 4 && l%2 == 0: // all the same
				*v = x[l*elems]
			case kind == 5:
				*v = math.Float32frombits(rng.Uint32())
			}
		}
	}
	return x
}

// TestFits holds the kernels of searches against the function for one fit, for every number of fits.
func TestFits(t *testing.T) {
	testmode.Sequential(t)
	same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b }
	for _, l := range levels {
		if l.fit.affine == nil {
			continue
		}
		use(t, l)
		rng := rand.New(rand.NewPCG(71, 71))
		var b batch
		for round := range 300 {
			elems, kind := 16+16*(round&1), round/2%6
			x := fitInputs(rng, elems, kind)
			x = x[:elems*(1+round%lanes)]
			copy(b.weights[:], fitInputs(rng, 32, kind&^1%4))
			for i, w := range b.weights {
				b.weights[i] = abs(w)
			}
			hold := func(name string, got float32, codes, want []uint8, scale float32, at int) {
				t.Helper()
				if !same(got, scale) {
					t.Fatalf("%s of %d elements: scale %v, want %v for %v by %v", name, elems, got, scale, x[at:][:elems], b.weights[at:][:elems])
				}
				if string(codes) != string(want) && scale == scale {
					t.Fatalf("%s of %d elements: codes %v, want %v for %v", name, elems, codes, want, x[at:][:elems])
				}
			}
			codes, want := make([]uint8, elems), make([]uint8, elems)
			for i, s := range []*search{plain2_K, plain4_K, plain5_K, weighed2, weighed5} {
				b.fitEach(x, elems, s)
				for at := 0; at < len(x); at += elems {
					scale, offset := fitAffine(want, x[at:][:elems], b.weights[at:][:elems], s)
					b.codesOf(codes, x[at:][:elems], at, s)
					hold(fmt.Sprint("affine ", i), b.scales[at/elems], codes, want, scale, at)
					if !same(b.seconds[at/elems], offset) {
						t.Fatalf("affine %d: offset %v, want %v", i, b.seconds[at/elems], offset)
					}
				}
			}
			for _, s := range []*search{toFour, toEight, toSixteen, to32} {
				b.fitEach(x, elems, s)
				for at := 0; at < len(x); at += elems {
					scale, _ := fitSymmetric(want, x[at:][:elems], b.weights[at:][:elems], s)
					b.codesOf(codes, x[at:][:elems], at, s)
					hold("symmetric", b.scales[at/elems], codes, want, scale, at)
				}
			}
			if elems == 16 {
				b.fitEach(x, 16, byTurns4)
				for at := 0; at < len(x); at += elems {
					scale, _ := fitByTurns(want, x[at:][:elems], nil, byTurns4)
					hold("by turns", b.scales[at/elems], nil, nil, scale, at)
				}
			} else {
				b.fitEach(x, 32, toIQ4)
				for at := 0; at < len(x); at += elems {
					scale, _ := fitIQ4(nil, x[at:][:elems], b.weights[at:][:elems], toIQ4)
					hold("levels", b.scales[at/elems], nil, nil, scale, at)
				}
			}
			if len(x) >= 256 {
				var got, want [256]uint8
				var scales, offsets [lanes]float32
				for j := range scales {
					scales[j], offsets[j] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
				}
				copy(scales[:2], x)
				l.fit.round(got[:], x[:256], elems, &scales[0], &offsets[0], -4, 3)
				roundGeneric(want[:], x[:256], elems, &scales, &offsets, -4, 3)
				if got != want {
					t.Fatalf("rounded: %v, want %v", got, want)
				}
			}
		}
	}
}

// TestWeighedSame holds rows quantized by importance against the portable level.
func TestWeighedSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 73))
	for d := range searched {
		if searched[d].encode == nil {
			continue
		}
		for n := 256; n <= 1280; n += 256 {
			row, importance := fitInputs(rng, 32, n/256&1)[:256], make([]float32, n)
			for len(row) < n {
				row = append(row, fitInputs(rng, 32, 0)...)
			}
			for i := range importance {
				importance[i] = rng.Float32()
			}
			size := n / layout.DType(d).BlockElems() * layout.DType(d).BlockBytes()
			want, got := make([]byte, size), make([]byte, size)
			old := active
			active = &generic
			encodeSearched(layout.DType(d), want, row[:n], importance)
			for _, l := range levels[1:] {
				active = overlay([]*impl{&generic, l})
				encodeSearched(layout.DType(d), got, row[:n], importance)
				if i := kerneltest.FirstDifference(got, want); i >= 0 {
					active = old
					t.Fatalf("%s of %v: byte %d of %d differs", l.name, layout.DType(d), i, size)
				}
			}
			active = old
		}
	}
}

// TestFP4 holds MXFP4's codes against the nearest levels: the first of two, as ggml searches them.
func TestFP4(t *testing.T) {
	testmode.Sequential(t)
	rng := rand.New(rand.NewPCG(79, 79))
	eachLevel(t, func(t *testing.T) {
		for round := range 4000 {
			x := fitInputs(rng, 32, round%6)[:32]
			for i := range x {
				switch round % 3 {
				case 0: // half-way
					x[i] = float32(math.Ldexp(float64(rng.IntN(49)-24)/4, round%200-100))
				case 1: // near the greatest number
					x[i] = math.Float32frombits(rng.Uint32()&0x81ffffff | 0x7e000000&^(rng.Uint32()&(1<<24)))
				}
			}
			if round%3 == 1 {
				x[rng.IntN(32)] = math.MaxFloat32 // whose logarithm is rounded up
			}
			got := make([]byte, 17)
			if err := Encode(plain(layout.MXFP4), got, x, nil, 1); err != nil {
				t.Fatal(err)
			}
			var levels [16]float32
			for i := range levels {
				levels[i] = float32(block.FP4[i]) * block.E8M0Half(got[0])
			}
			for i := range 16 {
				if want := nearestFP4(&levels, x[i]) | nearestFP4(&levels, x[i+16])<<4; got[1+i] != want {
					t.Fatalf("%v: byte %d is %#x, want %#x", x, i, got[1+i], want)
				}
			}
		}
	})
}
