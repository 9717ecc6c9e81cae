package survey

import "math"

// distance has the results of one pass over the values of two tensors. A NaN equals a NaN, and an infinity equals
// itself; neither is part of the sums.
type distance struct {
	differing      uint64
	unmatched      uint64 // pairs of a NaN and another value, or of different infinities
	unmatchedAt    uint64 // the first such pair
	finite         uint64 // pairs of finite values
	abs, rel       float64
	absAt, relAt   uint64
	dd, aa, bb, ab float64 // sums of squares and products
}

// compare adds to m the distances of the values a[i] and b[i], whose elements are first+i. It merges them in batches,
// so that sums stay exact enough.
func compare[T float](m *distance, a, b []T, first uint64) {
	for len(a) > 0 {
		n := min(batch, len(a))
		m.merge(differences(a[:n], b[:n], first))
		a, b, first = a[n:], b[n:], first+uint64(n)
	}
}

// differences returns the distances of the values a[i] and b[i], whose elements are first+i.
func differences[T float](a, b []T, first uint64) (m distance) {
	for i := range a {
		x, y, at := float64(a[i]), float64(b[i]), first+uint64(i)
		switch {
		case x-x == 0 && y-y == 0: // both are finite
			m.finite++
			m.pair(x, y, at)
		case x == y || x != x && y != y: // the same infinity, or two NaNs
		default:
			if m.unmatched == 0 {
				m.unmatchedAt = at
			}
			m.unmatched++
			m.differing++
		}
	}
	return m
}

// pair adds to m the finite values x and y of element at. Products are converted to float64, so that no machine fuses
// them with a sum: all get the same results.
func (m *distance) pair(x, y float64, at uint64) {
	d := math.Abs(x - y)
	m.differing += one(x != y)
	m.dd += float64(d * d)
	m.aa += float64(x * x)
	m.bb += float64(y * y)
	m.ab += float64(x * y)
	if d > m.abs {
		m.abs, m.absAt = d, at
	}
	if larger := max(math.Abs(x), math.Abs(y)); d > float64(m.rel*larger) { // d/larger > m.rel, without a division
		m.rel, m.relAt = d/larger, at
	}
}

// merge adds to m the distances o of later elements. Of equal maxima the first element stays.
func (m *distance) merge(o distance) {
	m.differing += o.differing
	m.finite += o.finite
	if m.unmatched == 0 {
		m.unmatchedAt = o.unmatchedAt
	}
	m.unmatched += o.unmatched
	if o.abs > m.abs {
		m.abs, m.absAt = o.abs, o.absAt
	}
	if o.rel > m.rel {
		m.rel, m.relAt = o.rel, o.relAt
	}
	m.dd += o.dd
	m.aa += o.aa
	m.bb += o.bb
	m.ab += o.ab
}

// rmse returns the root of the mean of the squared differences, of pairs of finite values.
func (m *distance) rmse() float64 {
	if m.finite == 0 {
		return 0
	}
	return math.Sqrt(m.dd / float64(m.finite))
}

// cosine returns the cosine of the angle between the tensors as vectors: NaN if one is all zeros.
func (m *distance) cosine() float64 {
	if m.differing == 0 {
		return 1
	}
	return max(-1, min(1, m.ab/(math.Sqrt(m.aa)*math.Sqrt(m.bb))))
}
