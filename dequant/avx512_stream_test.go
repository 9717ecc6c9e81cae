//go:build !purego && amd64

package dequant

import (
	"fmt"
	"testing"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

// BenchmarkStream sets the two variants of every kernel of the best level side by side. streamMin
// is taken from it. It counts bytes of output.
func BenchmarkStream(b *testing.B) {
	l := levels[len(levels)-1]
	for _, d := range types {
		k := l.expand[d]
		if k.stream == nil {
			continue
		}
		for n := 1 << 20; n <= 1<<26; n <<= 1 {
			src, dst := weightBlocks(d, n), kerneltest.Aligned(n, 0)
			for _, v := range []struct {
				name string
				run  func([]float32, []byte)
			}{{"run", k.run}, {"stream", k.stream}} {
				b.Run(fmt.Sprintf("type=%v/n=%d/variant=%s", d, n, v.name), func(b *testing.B) {
					b.SetBytes(int64(4 * n))
					for b.Loop() {
						for at := 0; at < n; at += simd.MaxCall {
							v.run(dst[at:at+simd.MaxCall], src[at/d.BlockElems()*d.BlockBytes():(at+simd.MaxCall)/d.BlockElems()*d.BlockBytes()])
						}
					}
				})
			}
		}
	}
}
