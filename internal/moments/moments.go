// Package moments sums powers of numbers, and products of pairs of numbers, in float64.
//
// Portable loops are the definition, and every level gives the same bits. There are eight sums of each kind: number i counts in
// sum i modulo 8. Products are rounded before they are added. The best level is chosen once, when the package is initialized. The
// build tag purego leaves all assembly out.
package moments

import (
	"math"

	"github.com/tensormap/tensormap/internal/simd"
)

// A Float is a type of numbers.
type Float interface{ float32 | float64 }

// Powers has sums of powers of distances from a pivot, and what else one pass over numbers tells. Least and Most are
// infinite without numbers. If a number is NaN or infinite, neither is Sum finite, and Least, Most and Zeros mean nothing.
type Powers struct {
	Sum, Squares, Cubes, Fourths float64
	Least, Most                  float64
	Zeros                        uint64 // of either sign
}

// Codes counts float32s by their upper 16 bits.
type Codes = [1 << 16]uint32

// PowersOf returns the Powers of x, whose sums are of x[i]-pivot. If codes is not nil, it counts x in it, as float32s.
func PowersOf[T Float](x []T, pivot float64, codes *Codes) Powers {
	var sums [4][lanes]float64
	var leasts, mosts [16]float32
	var zeroCounts [16]int32
	for i := range leasts {
		leasts[i], mosts[i] = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	if f, ok := any(x).([]float32); ok && active.powers != nil {
		if n := simd.WholeSteps(min(len(f), simd.MaxCall), step); n > 0 {
			if codes == nil {
				active.powers(&sums, &leasts, &mosts, &zeroCounts, f[:n], pivot)
			} else {
				active.count(&sums, &leasts, &mosts, &zeroCounts, f[:n], pivot, codes)
			}
			x = x[n:]
		}
	}
	if codes != nil {
		for _, v := range x {
			codes[math.Float32bits(float32(v))>>16]++
		}
	}
	least, most, zeros := powersGeneric(&sums, x, pivot)
	for i := range leasts {
		least, most = min(least, float64(leasts[i])), max(most, float64(mosts[i]))
		zeros += uint64(zeroCounts[i])
	}
	return Powers{total(&sums[0]), total(&sums[1]), total(&sums[2]), total(&sums[3]), least, most, zeros}
}

// powersGeneric adds the powers of x-pivot to sums, and returns the least and the most number and how many are 0.
func powersGeneric[T Float](sums *[4][lanes]float64, x []T, pivot float64) (least, most float64, zeros uint64) {
	lo, hi := T(math.Inf(1)), T(math.Inf(-1))
	for k := range lanes { // one after the other, whose sums stay in registers
		sum, squares, cubes, fourths := sums[0][k], sums[1][k], sums[2][k], sums[3][k]
		for i := k; i < len(x); i += lanes {
			v := x[i]
			if v < lo { // a branch that is rarely taken costs less than min
				lo = v
			}
			if v > hi {
				hi = v
			}
			if v == 0 {
				zeros++
			}
			d := float64(v) - pivot
			sum += d
			dd := float64(d * d)
			squares += dd
			cubes += float64(dd * d)
			fourths += float64(dd * dd)
		}
		sums[0][k], sums[1][k], sums[2][k], sums[3][k] = sum, squares, cubes, fourths
	}
	return float64(lo), float64(hi), zeros
}

// Pairs has sums over pairs of numbers a and b. If a number is NaN or infinite, DD is not finite, and the rest means nothing.
type Pairs struct {
	AA, BB, AB float64 // a², b² and a·b
	DD         float64 // (a-b)²
	Most       float64 // |a-b|
	Differing  uint64
	Exceeding  uint64 // with |a-b| > rel·max(|a|, |b|)
}

// PairsOf returns the Pairs of a and b, which are as many.
func PairsOf[T Float](a, b []T, rel float64) Pairs {
	b = b[:len(a)]
	var sums [4][lanes]float64
	var most [lanes]float64
	var differing, exceeding [lanes]int64
	if f, ok := any(a).([]float32); ok && active.pairs != nil {
		if n := simd.WholeSteps(min(len(f), simd.MaxCall), step); n > 0 {
			active.pairs(&sums, &most, &differing, &exceeding, f[:n], any(b).([]float32)[:n], rel)
			a, b = a[n:], b[n:]
		}
	}
	p := pairsGeneric(&sums, a, b, rel)
	for i := range most {
		p.Most = max(p.Most, most[i])
		p.Differing += uint64(differing[i])
		p.Exceeding += uint64(exceeding[i])
	}
	p.AA, p.BB, p.AB, p.DD = total(&sums[0]), total(&sums[1]), total(&sums[2]), total(&sums[3])
	return p
}

// pairsGeneric adds the products of a and b to sums, and returns the rest.
func pairsGeneric[T Float](sums *[4][lanes]float64, a, b []T, rel float64) (p Pairs) {
	b = b[:len(a)]
	for k := range lanes {
		aa, bb, ab, dd := sums[0][k], sums[1][k], sums[2][k], sums[3][k]
		for i := k; i < len(a); i += lanes {
			x, y := float64(a[i]), float64(b[i])
			aa += float64(x * x)
			bb += float64(y * y)
			ab += float64(x * y)
			d := math.Abs(x - y)
			dd += float64(d * d)
			if d != 0 {
				p.Differing++
			}
			if d > p.Most {
				p.Most = d
			}
			larger := math.Abs(x)
			if y := math.Abs(y); y > larger {
				larger = y
			}
			if d > float64(rel*larger) {
				p.Exceeding++
			}
		}
		sums[0][k], sums[1][k], sums[2][k], sums[3][k] = aa, bb, ab, dd
	}
	return p
}

// total adds eight sums up.
func total(s *[lanes]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// lanes is the number of sums of each kind.
const lanes = 8

// step is the number of float32s that kernels take at a time.
const step = 16

// A level has the kernels for some instructions. The portable level has none. The contract of kernels:
//
//   - They add to what their arrays hold, as the portable loops do, for a positive multiple of step of float32s: at most
//     simd.MaxCall. Minimum, maximum and counts are spread over any elements of their arrays.
//   - Not a byte outside their slices is read: the slices may end with a mapping.
//   - The upper halves of vector registers are clear on return (VZEROUPPER). No control bit (MXCSR) has changed.
//   - Assembly has no frame and calls nothing: the floats may be lost memory, and its fault unwinds.
type level struct {
	name   string
	powers func(sums *[4][lanes]float64, least, most *[16]float32, zeros *[16]int32, x []float32, pivot float64)
	count  func(sums *[4][lanes]float64, least, most *[16]float32, zeros *[16]int32, x []float32, pivot float64, codes *Codes)
	pairs  func(sums *[4][lanes]float64, most *[lanes]float64, differing, exceeding *[lanes]int64, a, b []float32, rel float64)
}

// levels are the implementations that this machine can run, the portable one first, the best last.
var levels = append([]level{{name: "generic"}}, archLevels()...)

var active = levels[len(levels)-1]
