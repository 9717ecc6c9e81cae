package dot

import (
	"fmt"
	"math/rand/v2"
	"testing"
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
				for range b.N/rows + 1 {
					multiply(dst, d, src, a)
				}
			})
		}
	}
}
