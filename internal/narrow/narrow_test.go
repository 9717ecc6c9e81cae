package narrow

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

// TestBrain rounds the exact way: of the two neighbours the nearer, and on a tie
// the even one.
func TestBrain(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for i := range 2_000_000 {
		b := rng.Uint32()
		if i&1 == 0 { // ties and their neighbours
			b = b&^0xffff | 0x8000 + uint32(i>>1%3) - 1
		}
		f, got := math.Float32frombits(b), brain(math.Float32frombits(b))
		if f != f {
			if want := uint16(b>>16) | 0x40; got != want {
				t.Fatalf("NaN %08x: %04x, want %04x", b, got, want)
			}
			continue
		}
		down := uint16(b >> 16)
		low := b & 0xffff
		want := down
		if low > 0x8000 || low == 0x8000 && down&1 == 1 {
			want++
		}
		if got != want {
			t.Fatalf("%08x: %04x, want %04x", b, got, want)
		}
	}
}

// eachKernel runs f for both types of every level, with the portable loop that defines the type.
func eachKernel(t testing.TB, f func(name string, k kernel, portable func(dst []byte, src []float32))) {
	for _, l := range levels {
		f(l.name+"/F16", l.f16, f16Generic)
		f(l.name+"/BF16", l.bf16, bf16Generic)
	}
}

// TestKernels holds every kernel against the portable loop: edges, lengths, alignments, memory around the destination.
func TestKernels(t *testing.T) {
	src := floats(simd.MaxCall + 1000)
	want, got := make([]byte, 2*len(src)), make([]byte, 2*len(src))
	eachKernel(t, func(name string, k kernel, portable func(dst []byte, src []float32)) {
		portable(want, src)
		k.write(got, src, portable)
		if i := kerneltest.FirstDifference(got, want); i >= 0 {
			t.Fatalf("%s: of %x: byte %d is %#x, want %#x", name, math.Float32bits(src[i/2]), i, got[i], want[i])
		}
		for n := range 200 {
			buf := bytes.Repeat([]byte{0xa5}, 2*n+64)
			off := 16 + n%16
			in := kerneltest.Aligned(n, n%16)
			copy(in, src)
			k.write(buf[off:off+2*n:off+2*n], in, portable)
			if !bytes.Equal(buf[off:off+2*n], want[:2*n]) {
				t.Fatalf("%s: %d floats differ", name, n)
			}
			if bytes.Count(buf[:off], []byte{0xa5}) != off || bytes.Count(buf[off+2*n:], []byte{0xa5}) != 64-off {
				t.Fatalf("%s: %d floats: wrote outside dst", name, n)
			}
		}
	})
}

// TestShorter: F16 and BF16 stop at the end of source or destination, whichever comes first.
func TestShorter(t *testing.T) {
	for _, narrow := range []func(dst []byte, src []float32){F16, BF16} {
		dst := make([]byte, 2*100)
		narrow(dst[:2*99+1], kerneltest.Floats(bytes.Repeat([]byte{0x3f}, 4*200)))
		if bytes.Count(dst, []byte{0}) != 2 {
			t.Error(dst)
		}
		clear(dst)
		narrow(dst, kerneltest.Floats(bytes.Repeat([]byte{0x3f}, 4*98)))
		if bytes.Count(dst, []byte{0}) != 4 {
			t.Error(dst)
		}
	}
}

func TestNoBoundsChecks(t *testing.T) { kerneltest.NoBoundsChecks(t, "narrow.go") }

// FuzzNarrow rounds any floats with every implementation.
func FuzzNarrow(f *testing.F) {
	f.Add(make([]byte, 4*100))
	f.Fuzz(func(t *testing.T, b []byte) {
		src := kerneltest.Floats(b)
		want, got := make([]byte, 2*len(src)), make([]byte, 2*len(src))
		eachKernel(t, func(name string, k kernel, portable func(dst []byte, src []float32)) {
			portable(want, src)
			k.write(got, src, portable)
			if i := kerneltest.FirstDifference(got, want); i >= 0 {
				t.Fatalf("%s: byte %d is %#x, want %#x", name, i, got[i], want[i])
			}
		})
	})
}

// BenchmarkNarrow counts bytes of input: 16 KiB (L1) and 8 MiB (L3).
func BenchmarkNarrow(b *testing.B) {
	for _, n := range []int{4 << 10, 2 << 20} {
		src, dst := floats(n), make([]byte, 2*n)
		eachKernel(b, func(name string, k kernel, portable func(dst []byte, src []float32)) {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					k.write(dst, src, portable)
				}
			})
		})
	}
}

// floats returns n float32s: patterns where rounding decides at every exponent, plain weights, then any bits.
func floats(n int) []float32 {
	rng := rand.New(rand.NewPCG(5, 5))
	var f []float32
	for e := range uint32(512) {
		for _, m := range []uint32{0, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0x18000, 0x7fefff, 0x7ff000, 0x7fffff} {
			f = append(f, math.Float32frombits(e<<23|m))
		}
	}
	for len(f) < n {
		f = append(f, float32(rng.NormFloat64()*0.02), math.Float32frombits(rng.Uint32()))
	}
	return f[:n]
}
