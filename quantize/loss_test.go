package quantize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// TestInt8s holds every level and length against the rule, with the quotient as float32
// division gives it and math.Round for the rest.
func TestInt8s(t *testing.T) {
	inf, tiny := float32(math.Inf(1)), math.Float32frombits(1)
	odd := []float32{0, 0.49999997, 0.5, 0.50000006, 1.5, 2.5, 126.49999, 126.5, 127, 127.5, 128, 255.5, 256, 3e9, 1 << 31, 1 << 63,
		math.MaxFloat32, inf, inf - inf, tiny, 1e-40, 1.1754944e-38}
	src := make([]float32, simd.ParallelMin+simd.ParallelGrain+17) // enough for several goroutines, and a tail
	for i := range src {
		if src[i] = odd[i/2%len(odd)]; i&1 == 1 {
			src[i] = -src[i]
		}
	}
	for _, known := range []struct {
		x    float32
		want int8
	}{{3e9, 127}, {-3e9, -127}, {inf, 127}, {-inf, -127}, {inf - inf, 0}, {126.5, 127}, {-0.5, -1}, {math.MaxFloat32, 127}, {tiny, 0}} {
		if got := toI8(known.x); got != known.want {
			t.Errorf("%v: %d, want %d", known.x, got, known.want)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	eachLevel(t, func(t *testing.T) {
		for _, scale := range []float32{1, 0.25, 3, 1e-30, tiny, 1e30, math.MaxFloat32} {
			for _, n := range []int{0, 1, 31, 2 * len(odd), len(src)} {
				dst := make([]byte, n)
				if err := Encode(int8s(scale), dst, src[:n], nil, dequant.AllCores); err != nil {
					t.Fatal(err)
				}
				for i, got := range dst {
					if want := i8ByRule(src[i], scale); int8(got) != want {
						t.Fatalf("%d values, %v / %v: %d, want %d", n, src[i], scale, int8(got), want)
					}
				}
			}
		}
	})
}

func i8ByRule(x, scale float32) int8 {
	q := float64(x / scale)
	if math.IsNaN(q) {
		return 0
	}
	return int8(math.Round(max(-127, min(127, q))))
}

// TestEncodeLoss counts what is lost of single values, which are known from the types: binary16
// ends at 65504 and 2⁻²⁴, and a block of 32 shares a scale that is one.
func TestEncodeLoss(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tt := range []struct {
		d       layout.DType
		fill, x float32 // 64 values, of which one is x
		want    Loss
	}{
		{layout.F32, 1, 3e-9, Loss{hasNonzero: true}},
		{layout.F32, 0, 0, Loss{}},
		{layout.F16, 1, 3e-9, Loss{Zeroed: 1, Largest: float64(float32(3e-9)), hasNonzero: true}},
		{layout.F16, 1, 0x1p-25, Loss{Zeroed: 1, Largest: 0x1p-25, hasNonzero: true}}, // a tie, to even
		{layout.F16, 1, 0x1.000002p-25, Loss{hasNonzero: true}},
		{layout.F16, 1, 0, Loss{hasNonzero: true}},
		{layout.F16, 1, 65519, Loss{hasNonzero: true}},
		{layout.F16, 1, -65520, Loss{NotFinite: 1, hasNonzero: true}},
		{layout.F16, 1, inf, Loss{hasNonzero: true}},
		{layout.F16, 1, nan, Loss{hasNonzero: true}},
		{layout.F16, 1e-9, 0, Loss{Zeroed: 63, Largest: float64(float32(1e-9))}}, // nothing remains
		{layout.F16, 0, 0, Loss{}},
		{layout.BF16, 1, 3e-9, Loss{hasNonzero: true}},
		{layout.BF16, 1, 0x1p-134, Loss{Zeroed: 1, Largest: 0x1p-134, hasNonzero: true}},
		{layout.BF16, 1, math.MaxFloat32, Loss{NotFinite: 1, hasNonzero: true}},
		{layout.Q8_0, 1, 3e-9, Loss{Zeroed: 1, Largest: float64(float32(3e-9)), hasNonzero: true}},
		{layout.Q8_0, 1, 1.0 / 128, Loss{hasNonzero: true}},
		{layout.Q8_0, 0, 3e-9, Loss{Zeroed: 1, Largest: float64(float32(3e-9)), ZeroBlocks: 1}}, // 3e-9/127 is no binary16
		{layout.Q8_0, 3e-9, 1, Loss{Zeroed: 63, Largest: float64(float32(3e-9)), ZeroBlocks: 1, hasNonzero: true}},
		{layout.Q8_0, 1, nan, Loss{NotFinite: 1, hasNonzero: true}}, // it becomes a number
		{layout.Q4_0, 1, 3e-9, Loss{Zeroed: 1, Largest: float64(float32(3e-9)), hasNonzero: true}},
		{layout.Q4_0, 1, 1e6, Loss{NotFinite: 32, Spoilt: 32, hasNonzero: true}}, // the scale of its block is infinite
		{layout.Q4_0, 1e-9, 2e-9, Loss{Zeroed: 64, Largest: float64(float32(2e-9)), ZeroBlocks: 2}},
		{layout.Q4_1, 1e-9, 2e-9, Loss{Zeroed: 64, Largest: float64(float32(2e-9)), ZeroBlocks: 2}},
		{layout.Q5_0, 1e-9, 2e-9, Loss{Zeroed: 64, Largest: float64(float32(2e-9)), ZeroBlocks: 2}},
		{layout.Q5_1, 1e-9, 2e-9, Loss{Zeroed: 64, Largest: float64(float32(2e-9)), ZeroBlocks: 2}},
		{layout.I8, 1, 0.49, Loss{Zeroed: 1, Largest: float64(float32(0.49)), hasNonzero: true}}, // the scale is 1
		{layout.I8, 1, nan, Loss{NotFinite: 1, hasNonzero: true}},
		{layout.I8, 1, inf, Loss{NotFinite: 1, hasNonzero: true}},
		{layout.I8, 1e-9, 0, Loss{Zeroed: 63, Largest: float64(float32(1e-9))}},
	} {
		t.Run(fmt.Sprintf("%v/%v among %v", tt.d, tt.x, tt.fill), func(t *testing.T) {
			eachLevel(t, func(t *testing.T) {
				for at := 40; at < 44; at++ {
					src := make([]float32, 64)
					for i := range src {
						src[i] = tt.fill
					}
					src[at] = tt.x
					dst := make([]byte, len(src)/tt.d.BlockElems()*tt.d.BlockBytes())
					got, err := EncodeLoss(unitCodec(tt.d), dst, src, nil, make([]float32, 64), dequant.AllCores)
					if err != nil || got != tt.want {
						t.Errorf("at %d: %+v, %v, want %+v", at, got, err, tt.want)
					}
					if got.AllZeroed() != (got.Zeroed > 0 && !tt.want.hasNonzero) {
						t.Errorf("all %t", got.AllZeroed())
					}
				}
			})
		})
	}
}

// TestEncodeLossIsQuantize: the bytes are those of Quantize, and the counts are those of a loop
// over all values, on several goroutines too.
func TestEncodeLossIsQuantize(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	src := floats(simd.ParallelMin + simd.ParallelGrain + lossTile + 32)
	is, scratch := make([]float32, len(src)), make([]float32, len(src))
	for _, d := range types {
		if !Supported(d) {
			continue
		}
		for _, n := range []int{0, 32, lossTile, lossTile + 32, len(src)} {
			n -= n % d.BlockElems()
			want, got := make([]byte, n/d.BlockElems()*d.BlockBytes()), make([]byte, n/d.BlockElems()*d.BlockBytes())
			loss, err := EncodeLoss(plain(d), got, src[:n], nil, scratch, dequant.AllCores)
			if err := errors.Join(err, Encode(plain(d), want, src[:n], nil, 1), dequant.Expand(d, is[:n], want)); err != nil {
				t.Fatal(err)
			}
			if i := kerneltest.FirstDifference(got, want); i >= 0 {
				t.Fatalf("%v: %d values: byte %d differs", d, n, i)
			}
			if i := kerneltest.FirstDifference(mmapio.Bytes(scratch[:n]), mmapio.Bytes(is[:n])); i >= 0 {
				t.Fatalf("%v: %d values: byte %d of the new values differs", d, n, i)
			}
			if want := lossByRule(src[:n], is[:n], d.BlockElems()); d != layout.F32 && loss != want {
				t.Errorf("%v: %d values: %+v, want %+v", d, n, loss, want)
			}
		}
	}
}

// unitCodec returns a codec in which a scale for all elements is 1.
func unitCodec(d layout.DType) dequant.Codec {
	if d == layout.I8 {
		return int8s(1)
	}
	return plain(d)
}

func lossByRule(was, is []float32, elems int) (l Loss) {
	finite := func(x float32) bool { return math.Abs(float64(x)) <= math.MaxFloat32 }
	for at := 0; at < len(was); at += elems {
		before, remains := l.Zeroed, false
		for i := at; i < at+elems; i++ {
			if finite(was[i]) != finite(is[i]) {
				l.NotFinite++
			}
			if was[i] == was[i] && is[i] != is[i] || elems > 1 && finite(was[i]) && !finite(is[i]) {
				l.Spoilt++
			}
			if finite(was[i]) && was[i] != 0 && is[i] == 0 {
				l.Zeroed++
				l.Largest = max(l.Largest, math.Abs(float64(was[i])))
			}
			remains = remains || is[i] != 0
		}
		if elems > 1 && l.Zeroed > before && !remains {
			l.ZeroBlocks++
		}
		l.hasNonzero = l.hasNonzero || remains
	}
	return l
}

func TestEncodeLossFails(t *testing.T) {
	src := make([]float32, 64)
	for _, err := range []error{
		lossError(layout.Q8_K, make([]byte, 292), make([]float32, 256), make([]float32, 256)),
		lossError(layout.Q8_0, make([]byte, 67), src, src),
		lossError(layout.I8, make([]byte, 63), src, src),
		lossError(layout.F16, make([]byte, 128), src, src[:63]),
	} {
		if !errors.Is(err, dequant.ErrLength) && !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
}

func lossError(d layout.DType, dst []byte, src, scratch []float32) error {
	_, err := EncodeLoss(unitCodec(d), dst, src, nil, scratch, dequant.AllCores)
	return err
}

func TestAddNarrowed(t *testing.T) {
	src := []float64{1, 0, 1e-300, -1e-46, 1e300, math.Inf(1), math.NaN(), 1e-45, 5e-324}
	var stored []byte
	for _, x := range src {
		stored = binary.LittleEndian.AppendUint64(stored, math.Float64bits(x))
	}
	values := make([]float32, len(src))
	if err := dequant.Expand(layout.F64, values, stored); err != nil {
		t.Fatal(err)
	}
	var l Loss
	l.AddNarrowed(stored, values)
	if want := (Loss{NotFinite: 1, Zeroed: 3, Largest: 1e-46}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
}

// BenchmarkEncodeLoss counts bytes of input.
func BenchmarkEncodeLoss(b *testing.B) {
	const n = 1 << 20
	src, scratch := make([]float32, n), make([]float32, n)
	rng := rand.New(rand.NewPCG(13, 13))
	for i := range src {
		src[i] = float32(rng.NormFloat64() * 0.02)
	}
	for _, d := range []layout.DType{layout.F16, layout.BF16, layout.Q8_0, layout.Q4_0} {
		b.Run(fmt.Sprintf("type=%v", d), func(b *testing.B) {
			dst := make([]byte, n/d.BlockElems()*d.BlockBytes())
			b.SetBytes(4 * n)
			for b.Loop() {
				if _, err := EncodeLoss(plain(d), dst, src, nil, scratch, dequant.AllCores); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
