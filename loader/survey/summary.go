package survey

import (
	"math"
	"slices"

	"github.com/tensormap/tensormap/internal/moments"
)

// float is a type of values.
type float interface{ float32 | float64 }

// summary holds the results of one pass over values. Values that are not finite are counted,
// and have no part in the rest.
type summary struct {
	n                   uint64 // finite values
	zeros               uint64 // of either sign
	nan, posInf, negInf uint64
	min, max            float64
	minAt, maxAt        uint64 // the first elements that are min and max
	mean                float64
	m2, m3, m4          float64 // sums of the distances from mean to the power of 2, 3, and 4
}

// isFinite reports whether x is neither infinite nor NaN: for such x, x−x is NaN.
func isFinite[T float](x T) bool { return x-x == 0 }

// newSummary returns the summary of no values.
func newSummary() summary { return summary{min: math.Inf(1), max: math.Inf(-1)} }

// mergeStep is the number of values summed before sums are merged: few enough that errors of rounding stay small, and
// that the values are still in the cache if some turn out not to be finite.
const mergeStep = 1 << 12

// measure adds the values of v to the summary m, mergeStep values at a time. It also counts them by code in codes, unless that is nil. v has
// the elements of a tensor from element first on.
func measure[T float](m *summary, v []T, first uint64, codes *moments.Codes) {
	for len(v) > 0 {
		n := min(mergeStep, len(v))
		o := summarize(v[:n], codes)
		if o.min < m.min {
			o.minAt = first + uint64(slices.Index(v, T(o.min)))
		}
		if o.max > m.max {
			o.maxAt = first + uint64(slices.Index(v, T(o.max)))
		}
		m.merge(o)
		v, first = v[n:], first+uint64(n)
	}
}

// summarize returns the summary of v, at most mergeStep values, without minAt and maxAt. It also counts v in codes, unless codes is nil. It
// looks at single values only if their sum is not finite: some of them may then be NaN or infinite.
func summarize[T float](v []T, codes *moments.Codes) summary {
	if m, finite := sums(v, codes); finite {
		return m
	}
	var space [mergeStep]T
	finite := space[:0]
	var odd summary
	for _, x := range v {
		switch f := float64(x); {
		case f != f:
			odd.nan++
		case math.IsInf(f, 1):
			odd.posInf++
		case math.IsInf(f, -1):
			odd.negInf++
		default:
			finite = append(finite, x)
		}
	}
	m, _ := sums(finite, nil) // codes has counted them already
	m.nan, m.posInf, m.negInf = odd.nan, odd.posInf, odd.negInf
	return m
}

// sums returns the summary of v, without minAt and maxAt, and counts v in codes unless that is nil. finite is false if a value is NaN or
// infinite, or if the sum overflows. sums adds distances from one of the values, so that a large mean with a small deviation loses no
// digits. Then it shifts the sums of their powers to the mean by the binomial theorem. Conversions to float64 keep machines from fusing
// operations.
func sums[T float](v []T, codes *moments.Codes) (m summary, finite bool) {
	if len(v) == 0 {
		return newSummary(), true
	}
	pivot := median(float64(v[0]), float64(v[len(v)/2]), float64(v[len(v)-1])) // the median of three is hardly an outlier
	p := moments.PowersOf(v, pivot, codes)                                     // sums of powers of the distances from pivot
	e := p.Sum / float64(len(v))                                               // the mean's distance from pivot
	m = summary{n: uint64(len(v)), zeros: p.Zeros, min: p.Least, max: p.Most, mean: pivot + e}
	m.m2 = max(0, p.Squares-float64(p.Sum*e))
	m.m3 = float64(p.Cubes-float64(3*e*p.Squares)) + float64(2*e*e*p.Sum)
	m.m4 = max(0, float64(float64(p.Fourths-float64(4*e*p.Cubes))+float64(6*e*e*p.Squares))-float64(3*e*e*e*p.Sum))
	if m.m2 != m.m2 { // NaN, as Inf−Inf is: the squares overflow float64
		m.m2 = math.Inf(1)
	}
	return m, isFinite(p.Sum)
}

// median returns the middle one of three values.
func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// oneIf returns 1 if b is true, and 0 if not.
func oneIf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// merge adds to m the summary o of values that come after the values of m. If both have the same extreme, the extreme of m stays. It combines the
// means and moments as Chan, Golub and LeVeque (1979) do, and Pébay (2008) for higher moments. m4 comes first and m2 last, since each
// needs the old lower ones. The conversions to float64 keep machines from fusing operations.
func (m *summary) merge(o summary) {
	m.zeros += o.zeros
	m.nan += o.nan
	m.posInf += o.posInf
	m.negInf += o.negInf
	if o.min < m.min {
		m.min, m.minAt = o.min, o.minAt
	}
	if o.max > m.max {
		m.max, m.maxAt = o.max, o.maxAt
	}
	switch {
	case o.n == 0: // nothing to add
	case m.n == 0:
		m.n, m.mean, m.m2, m.m3, m.m4 = o.n, o.mean, o.m2, o.m3, o.m4
	default:
		n := m.n + o.n
		distance := o.mean - m.mean
		shareOfO := float64(o.n) / float64(n) // of all values
		shareOfM := 1 - shareOfO
		between := float64(distance*distance) * float64(float64(m.n)*shareOfO)
		m.m4 += o.m4 + float64(float64(distance*distance)*between*float64(1-float64(3*shareOfO*shareOfM))) +
			float64(6*float64(distance*distance)*float64(float64(shareOfM*shareOfM*o.m2)+float64(shareOfO*shareOfO*m.m2))) +
			float64(4*distance*float64(float64(shareOfM*o.m3)-float64(shareOfO*m.m3)))
		m.m3 += o.m3 + float64(distance*between*float64(shareOfM-shareOfO)) + float64(3*distance*float64(float64(shareOfM*o.m2)-float64(shareOfO*m.m2)))
		m.mean += float64(distance * shareOfO)
		m.m2 += o.m2 + between
		m.n = n
	}
}

// std returns the standard deviation of all values as a population, or 0 if there are none.
func (m *summary) std() float64 { return math.Sqrt(m.m2 / float64(max(m.n, 1))) }

// kurtosis returns the fourth central moment divided by the standard deviation to the fourth, less 3: n·m4/m2² − 3, in an order that
// does not overflow. It is NaN if the deviation is 0 or not finite, or if m4 is not finite.
func (m *summary) kurtosis() float64 {
	if k := m.m4/m.m2*(float64(m.n)/m.m2) - 3; isFinite(k) {
		return k
	}
	return math.NaN()
}
