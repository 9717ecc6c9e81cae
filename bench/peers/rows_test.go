package peers

import (
	"math"
	"math/rand/v2"

	"github.com/tensormap/tensormap/layout"
)

// rowElems is the number of elements in the rows that fillRows makes. A block has one row, a part
// of one, or several of different kinds.
const rowElems = 32

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
