package dot

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// BenchmarkRows multiplies 4096-wide rows in the cache on one core. ns/op is of one row.
func BenchmarkRows(b *testing.B) {
	const cols, rows = 4096, 4
	rng := rand.New(rand.NewPCG(1, 1))
	for _, d := range types {
		a, err := Prepare(d, randomVector(rng, cols))
		if err != nil {
			b.Fatal(err)
		}
		src, dst := randomRows(rng, d, rows*cols/d.BlockElems()), make([]float32, rows)
		for _, l := range levels {
			b.Run(fmt.Sprintf("type=%v/impl=%s", d, l.name), func(b *testing.B) {
				use(b, l)
				b.SetBytes(int64(len(src) / rows))
				run := multiply
				if active.quantized[d].one == nil && active.plain[d] == nil {
					run = func(dst []float32, d layout.DType, rows []byte, a *Activation) {
						multiplyExpanded([][]float32{dst}, d, rows, []*Activation{a})
					}
				}
				for range b.N/rows + 1 {
					run(dst, d, src, a)
				}
			})
		}
	}
}

// BenchmarkMat multiplies 384 rows of 1536 on one core with so many vectors at once. ns/op is of all, and Gw/s counts a weight for
// each vector.
func BenchmarkMat(b *testing.B) {
	const cols, rows = 1536, 384
	rng := rand.New(rand.NewPCG(1, 1))
	for _, d := range types {
		if cols%d.BlockElems() != 0 {
			continue
		}
		src := randomRows(rng, d, rows*cols/d.BlockElems())
		for _, n := range []int{1, 4, 8, 16, 42} {
			as, dst := make([]*Activation, n), make([][]float32, n)
			for i := range as {
				a, err := Prepare(d, randomVector(rng, cols))
				if err != nil {
					b.Fatal(err)
				}
				as[i], dst[i] = a, make([]float32, rows)
			}
			for _, l := range levels[1:] {
				b.Run(fmt.Sprintf("type=%v/impl=%s/vectors=%d", d, l.name, n), func(b *testing.B) {
					use(b, l)
					for b.Loop() {
						if err := Mat(dst, d, src, as); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(n*rows*cols)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "Gw/s")
				})
			}
		}
	}
}

// BenchmarkPrepare makes an activation of 4096 elements.
func BenchmarkPrepare(b *testing.B) {
	const cols = 4096
	x := randomVector(rand.New(rand.NewPCG(1, 1)), cols)
	for _, d := range []layout.DType{layout.Q8_0, layout.Q4_1, layout.Q4_K} {
		for i, l := range levels {
			if i > 0 && l.blocks == nil {
				continue
			}
			b.Run(fmt.Sprintf("type=%v/impl=%s", Type(d), l.name), func(b *testing.B) {
				use(b, l)
				b.SetBytes(4 * cols)
				a := new(Activation)
				for b.Loop() {
					if err := a.Set(d, x); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
