package quantize

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchSizes are elements of input: 16 KiB (L1), 512 KiB (L2), 8 MiB (L3).
var benchSizes = []int{4 << 10, 128 << 10, 2 << 20}

// BenchmarkEncode counts bytes of input.
func BenchmarkEncode(b *testing.B) {
	for _, d := range types {
		for _, l := range levels {
			if l.encoderOf(d).run == nil {
				continue
			}
			for _, n := range benchSizes {
				b.Run(fmt.Sprintf("type=%v/impl=%s/n=%d", d, l.name, n), func(b *testing.B) {
					use(b, l)
					rng := rand.New(rand.NewPCG(13, 13))
					src, dst := make([]float32, n), make([]byte, n/d.BlockElems()*d.BlockBytes())
					for i := range src {
						src[i] = float32(rng.NormFloat64() * 0.02)
					}
					b.SetBytes(int64(4 * n))
					for b.Loop() {
						if err := Encode(plain(d), dst, src, nil, 1); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
