package survey

import "math"

// float is a type of values.
type float interface{ float32 | float64 }

// summary holds the results of one pass over values. Values that are not finite are counted,
// and have no part in the rest.
type summary struct {
	n                   uint64 // finite values
	zeros               uint64 // of either sign
	nan, posInf, negInf uint64
	min, max            float64
	mean                float64
	m2                  float64 // sum of the squares of the distances from mean
}

// newSummary returns the summary of no values.
func newSummary() summary { return summary{min: math.Inf(1), max: math.Inf(-1)} }

// batch is the number of values summed before sums are merged: few enough that errors of rounding stay small, and
// that the values are still in the cache if some turn out not to be finite.
const batch = 1 << 12

// measure adds the values of v to m, in batches. It may reorder v.
func measure[T float](m *summary, v []T) {
	for len(v) > 0 {
		n := min(batch, len(v))
		m.merge(summarize(v[:n]))
		v = v[n:]
	}
}

// summarize returns the summary of v, and may reorder v. It looks for values that are not finite only if the sum is
// not.
func summarize[T float](v []T) summary {
	if m, finite := sums(v); finite {
		return m
	}
	v, odd := sift(v)
	m, _ := sums(v)
	m.nan, m.posInf, m.negInf = odd.nan, odd.posInf, odd.negInf
	return m
}

// sums returns the summary of v, and reports whether all of v is finite.
//
// It sums distances from one of the values, so a large mean with a small deviation loses no digits. Products are
// converted to float64, which keeps machines from fusing them with a sum: all get the same results.
func sums[T float](v []T) (m summary, finite bool) {
	m = newSummary()
	if len(v) == 0 {
		return m, true
	}
	n := float64(len(v))
	lo, hi := v[0], v[0]
	pivot := median(float64(v[0]), float64(v[len(v)/2]), float64(v[len(v)-1])) // hardly an outlier
	var sum, squares float64
	var zeros uint64
	for _, x := range v {
		if x < lo { // a branch that is rarely taken costs less than min
			lo = x
		}
		if x > hi {
			hi = x
		}
		zeros += one(x == 0)
		d := float64(x) - pivot
		sum += d
		squares += float64(d * d)
	}
	m.n, m.zeros = uint64(n), zeros
	m.min, m.max = float64(lo), float64(hi)
	m.mean = pivot + sum/n
	m.m2 = max(0, squares-sum*(sum/n))
	if m.m2 != m.m2 {
		m.m2 = math.Inf(1) // of float64s whose squares are none
	}
	return m, sum-sum == 0 // false for an infinity and for NaN
}

// median returns the middle one of three values.
func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// one returns 1 for true and 0 for false.
func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// sift moves the finite values of v to its front, and returns them. odd counts the others.
func sift[T float](v []T) (finite []T, odd summary) {
	finite = v[:0]
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
	return finite, odd
}

// finite returns the finite values of v, which it may reorder. m is a summary of at least the values of v: if it counts
// only finite ones, finite returns v as it is.
func finite[T float](m *summary, v []T) []T {
	if m.nan+m.posInf+m.negInf > 0 {
		v, _ = sift(v)
	}
	return v
}

// merge adds the summary of further values (Chan, Golub and LeVeque, 1979).
func (m *summary) merge(o summary) {
	m.zeros += o.zeros
	m.nan += o.nan
	m.posInf += o.posInf
	m.negInf += o.negInf
	m.min, m.max = min(m.min, o.min), max(m.max, o.max)
	switch {
	case o.n == 0:
	case m.n == 0:
		m.n, m.mean, m.m2 = o.n, o.mean, o.m2
	default:
		n := m.n + o.n
		d := o.mean - m.mean
		share := float64(o.n) / float64(n)
		m.mean += float64(d * share)
		m.m2 += o.m2 + float64(float64(d*d)*float64(float64(m.n)*share))
		m.n = n
	}
}
