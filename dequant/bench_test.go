package dequant

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/dequant/internal/block"
	"github.com/tensormap/tensormap/layout"
)

// benchSizes are elements of output: 16 KiB (L1), 512 KiB (L2), 8 MiB (L3), 256 MiB.
var benchSizes = []int{4 << 10, 128 << 10, 2 << 20, 64 << 20}

// weightBlocks are n elements of type d as a model has them: random codes under scales that
// are plain numbers, and halves that are plain weights.
func weightBlocks(d layout.DType, n int) []byte {
	rng := rand.New(rand.NewPCG(12, uint64(d)))
	src := randomBytes(rng, n/d.BlockElems()*d.BlockBytes())
	for at := 0; at < len(src); at += d.BlockBytes() {
		b := src[at:]
		for _, h := range halves[d] {
			putScale(d, b[h:], block.Half(float32(rng.NormFloat64()*0.01)))
		}
		switch f := float32(rng.NormFloat64() * 0.02); d {
		case layout.F16:
			putHalf((*[2]byte)(b), f)
		case layout.BF16:
			encodeBF16Generic(b[:2], []float32{f})
		case layout.F32:
			encodeF32Generic(b[:4], []float32{f})
		case layout.MXFP4:
			b[0] = 120 + b[0]&7
		case layout.Q8_K:
			encodeF32Generic(b[:4], []float32{f})
		}
	}
	return src
}

// BenchmarkDequant counts bytes of output.
func BenchmarkDequant(b *testing.B) {
	for _, d := range types {
		for _, l := range levels {
			if l.expand[d].run == nil {
				continue
			}
			for _, n := range benchSizes {
				b.Run(fmt.Sprintf("type=%v/impl=%s/n=%d", d, l.name, n), func(b *testing.B) {
					use(b, l)
					src, dst := weightBlocks(d, n), make([]float32, n)
					b.SetBytes(int64(4 * n))
					for b.Loop() {
						if err := Expand(d, dst, src); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkParallel is the preferred implementation on all cores. It counts bytes of output.
func BenchmarkParallel(b *testing.B) {
	for _, d := range types {
		for _, n := range benchSizes {
			b.Run(fmt.Sprintf("type=%v/n=%d", d, n), func(b *testing.B) {
				src, dst := weightBlocks(d, n), make([]float32, n)
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					if err := plain(d).Expand(dst, src, 0, AllCores); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkQuantize counts bytes of input.
func BenchmarkQuantize(b *testing.B) {
	for _, d := range types {
		for _, l := range levels {
			if l.encode[d].run == nil {
				continue
			}
			for _, n := range benchSizes[:3] {
				b.Run(fmt.Sprintf("type=%v/impl=%s/n=%d", d, l.name, n), func(b *testing.B) {
					use(b, l)
					rng := rand.New(rand.NewPCG(13, 13))
					src, dst := make([]float32, n), make([]byte, n/d.BlockElems()*d.BlockBytes())
					for i := range src {
						src[i] = float32(rng.NormFloat64() * 0.02)
					}
					b.SetBytes(int64(4 * n))
					for b.Loop() {
						if err := Quantize(d, dst, src); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
