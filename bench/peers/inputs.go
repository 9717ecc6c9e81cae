package main

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

func putHalf(b []byte, f float64) {
	binary.LittleEndian.PutUint16(b, float16.Fromfloat32(float32(f)).Bits())
}

// tile repeats the first n elements of s throughout it.
func tile[T any](s []T, n int) {
	for n < len(s) {
		n += copy(s[n:], s[:n])
	}
}

// rowElems is the number of elements in the rows that fillRows makes. A block has one row, a part
// of one, or several of different kinds.
const rowElems = 32

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

// weigh gives importance other numbers: as they were, one in four zero in runs, all zero, alike, or of any
// magnitude up to where the square of a weight overflows.
func weigh(rng *rand.Rand) {
	kind := rng.IntN(6)
	for i := range importance {
		x := rng.NormFloat64() * math.Exp2(4*rng.NormFloat64())
		switch kind {
		case 0:
			if i/32%4 == 0 || rng.IntN(50) == 0 {
				x = 0
			}
		case 1:
			x = 0
		case 2:
			x = 1
		case 3:
			x = math.Exp2(float64(rng.IntN(200)-149) / 2)
		}
		importance[i] = float32(x * x)
	}
}

// rowOf returns the number of elements that are compared at a time: a block at least.
func rowOf(d layout.DType) int { return max(rowElems, d.BlockElems()) }

// fillRows makes rows of finite numbers, each of a kind drawn at random.
func fillRows(rng *rand.Rand, x []float32) {
	for ; len(x) >= rowElems; x = x[rowElems:] {
		rowKinds[rng.IntN(len(rowKinds))](rng, x[:rowElems])
	}
}

var rowKinds = []func(rng *rand.Rand, x []float32){
	plainRow,
	scaledRow,
	rangeRow(0, 255),   // any finite bits
	rangeRow(0, 1),     // subnormal
	rangeRow(1, 23),    // so small that a block's scale is subnormal, or its reciprocal infinite
	rangeRow(100, 112), // halves' subnormals and below
	rangeRow(140, 146), // around the greatest half
	rangeRow(240, 255), // up to the greatest number
	sparseRow,
	constantRow,
	tiesRow,
}

func plainRow(rng *rand.Rand, x []float32) {
	for i := range x {
		x[i] = float32(rng.NormFloat64() * 0.02)
	}
}

// scaledRow fills a row with numbers of very different magnitude.
func scaledRow(rng *rand.Rand, x []float32) {
	for i := range x {
		x[i] = float32(math.Ldexp(rng.NormFloat64(), rng.IntN(24)-12))
	}
}

// rangeRow returns a function that fills a row with any bits under biased exponents from lo to
// below hi.
func rangeRow(lo, hi uint32) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, x []float32) {
		for i := range x {
			x[i] = math.Float32frombits(rng.Uint32()&0x807fffff | (lo+rng.Uint32N(hi-lo))<<23)
		}
	}
}

// sparseRow fills a row with zeros of both signs and few other numbers, or none.
func sparseRow(rng *rand.Rand, x []float32) {
	for i := range x {
		x[i] = float32(math.Copysign(0, rng.Float64()-0.5))
	}
	for range rng.IntN(3) {
		x[rng.IntN(len(x))] = float32(rng.NormFloat64())
	}
}

func constantRow(rng *rand.Rand, x []float32) {
	x[0] = float32(math.Ldexp(rng.NormFloat64(), rng.IntN(64)-32))
	tile(x, 1)
}

// tiesRow fills a row with multiples of half a quantization step of each type, some a last place
// off. Its extremes set the step.
func tiesRow(rng *rand.Rand, x []float32) {
	extreme := []float64{8, 16, 127, 7.5, 15.5}[rng.IntN(5)]
	unit := math.Ldexp(1, rng.IntN(40)-20)
	if rng.IntN(2) == 0 {
		unit *= 1 + rng.Float64()
	}
	for i := range x {
		half := math.Round((2*rng.Float64()-1)*2*extreme) / 2
		x[i] = nudge(rng, float32(half*unit))
	}
	sign := math.Copysign(1, rng.Float64()-0.5)
	x[rng.IntN(len(x))] = float32(sign * extreme * unit)
	if rng.IntN(2) == 0 {
		x[rng.IntN(len(x))] = float32(-sign * extreme * unit)
	}
}

func nudge(rng *rand.Rand, f float32) float32 {
	if f == 0 {
		return f
	}
	return math.Float32frombits(math.Float32bits(f) + rng.Uint32N(3) - 1)
}
