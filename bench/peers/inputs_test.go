package peers

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/x448/float16"
)

// sizeOf returns the number of bytes that n elements of type d take.
func sizeOf(d layout.DType, n int) int { return n / d.BlockElems() * d.BlockBytes() }

// fillRandom makes every bit random.
func fillRandom(rng *rand.Rand, b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, rng.Uint64())
	}
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// fillPlain makes blocks like a model's: random codes under plain scales.
func fillPlain(rng *rand.Rand, d layout.DType, b []byte) {
	fillRandom(rng, b)
	for size := d.BlockBytes(); len(b) >= size; b = b[size:] {
		for _, at := range kerneltest.Halves[d] {
			kerneltest.PutScale(d, b[at:], float16.Fromfloat32(float32(rng.NormFloat64()*0.01)).Bits())
		}
		switch d {
		case layout.F16:
			putHalf(b, rng.NormFloat64()*0.02)
		case layout.BF16:
			binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(rng.NormFloat64()*0.02))>>16))
		case layout.MXFP4:
			b[0] = 120 + b[0]&7
		case layout.Q8_K:
			binary.LittleEndian.PutUint32(b, math.Float32bits(float32(rng.NormFloat64()*0.01)))
		}
	}
}

// putHalf writes a number as a binary16.
func putHalf(b []byte, f float64) {
	binary.LittleEndian.PutUint16(b, float16.Fromfloat32(float32(f)).Bits())
}

// tile repeats the first n elements of s throughout it.
func tile[T any](s []T, n int) {
	for n < len(s) {
		n += copy(s[n:], s[:n])
	}
}

// weightedRow is the number of elements in the rows that have an importance.
const weightedRow = 1024

// importance holds the weights of a row's elements.
var importance = modelImportance()

// modelImportance returns weights like those of an importance matrix: sums of squares, few of them large,
// some zero.
func modelImportance() []float32 {
	rng := rand.New(rand.NewPCG(41, 42))
	w := make([]float32, weightedRow)
	for i := range w {
		if x := rng.NormFloat64() * math.Exp2(4*rng.NormFloat64()); rng.IntN(50) > 0 {
			w[i] = float32(x * x)
		}
	}
	return w
}
