package peers

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/tensormap/tensormap/layout"
	"github.com/x448/float16"
)

// scalesAt has the places of the binary16 scales in a block of each type.
var scalesAt = map[layout.DType][]int{
	layout.Q4_0: {0}, layout.Q4_1: {0, 2}, layout.Q5_0: {0}, layout.Q5_1: {0, 2}, layout.Q8_0: {0},
	layout.Q2_K: {80, 82}, layout.Q3_K: {108}, layout.Q4_K: {0, 2}, layout.Q5_K: {0, 2}, layout.Q6_K: {208},
	layout.IQ4_NL: {0}, layout.IQ4_XS: {0},
	layout.IQ2_XXS: {0}, layout.IQ2_XS: {0}, layout.IQ2_S: {0}, layout.IQ3_XXS: {0}, layout.IQ3_S: {0}, layout.IQ1_S: {0},
	layout.IQ1_M: {48}, layout.TQ1_0: {52}, layout.TQ2_0: {64}, layout.Q1_0: {0}, layout.Q2_0: {0},
}

// putScale puts a binary16 into a place that scalesAt gives. IQ1_M has it in the upper nibbles of
// four words.
func putScale(d layout.DType, b []byte, h uint16) {
	if d != layout.IQ1_M {
		binary.LittleEndian.PutUint16(b, h)
		return
	}
	for k := range 4 {
		b[2*k+1] = b[2*k+1]&15 | byte(h>>(4*k))<<4
	}
}

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
		for _, at := range scalesAt[d] {
			putScale(d, b[at:], float16.Fromfloat32(float32(rng.NormFloat64()*0.01)).Bits())
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
