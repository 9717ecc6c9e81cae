package survey

import (
	"context"
	"math"

	"github.com/tensormap/tensormap/internal/moments"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Errors says how far values B are from values A, their reference: sums over all pairs of finite values, in float64.
type Errors struct {
	Values uint64  // pairs
	AA, BB float64 // sums of a² and b²
	AB     float64 // sum of a·b
	DD     float64 // sum of (a−b)²
}

// Add adds the sums o of other pairs of values to those of e.
func (e *Errors) Add(o Errors) {
	e.Values += o.Values
	e.AA += o.AA
	e.BB += o.BB
	e.AB += o.AB
	e.DD += o.DD
}

// DB returns the ratio of signal to error in decibels, 10 log₁₀(Σa² / Σ(a−b)²). It is infinite if no value differs, and NaN
// if there are no values.
func (e *Errors) DB() float64 {
	switch {
	case e.Values == 0:
		return math.NaN()
	case e.DD == 0:
		return math.Inf(1)
	}
	return 10 * math.Log10(e.AA/e.DD)
}

// RelativeRMS returns √(Σ(a−b)² / Σa²). It is 0 if no value differs, infinite if values differ and all of a are 0, and NaN if there
// are no values.
func (e *Errors) RelativeRMS() float64 {
	if e.Values > 0 && e.DD == 0 {
		return 0
	}
	return math.Sqrt(e.DD / e.AA)
}

// RMSE returns the square root of the mean of (a−b)², or 0 if there are no values.
func (e *Errors) RMSE() float64 { return math.Sqrt(e.DD / float64(max(e.Values, 1))) }

// Cosine returns the cosine of the angle between A and B as vectors. It is NaN if one of the two is all zeros. It means nothing if a
// sum of squares overflows float64.
func (e *Errors) Cosine() float64 {
	if e.DD == 0 && e.AA > 0 && e.AA <= math.MaxFloat64 { // equal vectors: without rounding
		return 1
	}
	return max(-1, min(1, e.AB/(math.Sqrt(e.AA)*math.Sqrt(e.BB))))
}

// Overall sums the errors of all pairs of two models whose tensors are floats, quantized or have a scale. Its figures
// are of the sums: large tensors count for more.
type Overall struct {
	Errors
	same map[string]bool // tensors whose values were not read, since their elements are the same
}

// Add adds the errors of a pair, or notes its name for Complete if both tensors have the same elements. It ignores pairs that were not
// compared, and plain integers.
func (o *Overall) Add(p *Pair) {
	switch {
	case !p.Compared || !isReal(*p.A) || !isReal(*p.B): // does not count
	case p.SameElements:
		if o.same == nil {
			o.same = make(map[string]bool)
		}
		o.same[p.Name] = true
	default:
		o.Errors.Add(p.Errors)
	}
}

// isReal reports whether the elements of t stand for real numbers: floats, quantized values, integers with a scale, or any scheme's.
func isReal(t loader.Tensor) bool {
	_, isScaled, err := t.Scale()
	kind := t.DType().Kind()
	return t.Scheme() != nil || isScaled && err == nil || kind == layout.KindFloat || kind == layout.KindQuantized
}

// Complete adds to the sums the pairs whose tensors have the same elements. Compare has not read their values: Complete reads them from
// model a. It does nothing if no value of any pair differs. It ignores tensors that cannot be read. It fails if ctx ends, or if a is
// closed or one of its files has changed.
func (o *Overall) Complete(ctx context.Context, a *loader.Model, opts Options) error {
	if o.DD == 0 || len(o.same) == 0 {
		return nil
	}
	opts.Filter = func(name string) bool { return o.same[name] }
	return Stats(ctx, a, &StatsOptions{Options: opts}, func(s *TensorStats) error {
		if s.Err == nil && s.Finite > 0 {
			n := float64(s.Finite)
			squares := n*s.Mean*s.Mean + n*s.Std*s.Std // the sum of the squares of all values, which A and B share
			o.Errors.Add(Errors{Values: s.Finite, AA: squares, BB: squares, AB: squares, DD: 0})
		}
		return nil
	})
}

// ErrorsOf returns the errors of the values b against a, which has as many. It leaves out pairs with NaN or an infinity.
func ErrorsOf(a, b []float32) (sum Errors) {
	for len(a) > 0 {
		n := min(batch, len(a))
		e, finite := errorsOf(n, moments.PairsOf(a[:n], b[:n], math.Inf(1))) // Inf: nobody asks for Exceeding
		if !finite {
			e = differences(a[:n], b[:n], 0).Errors // slower: it looks at each pair
		}
		sum.Add(e)
		a, b = a[n:], b[n:]
	}
	return sum
}

// errorsOf returns the sums p of n pairs as Errors. finite is false, and the errors mean nothing, if a value is NaN or infinite, or if
// the sum of (a−b)² overflows.
func errorsOf(n int, p moments.Pairs) (e Errors, finite bool) {
	return Errors{Values: uint64(n), AA: p.AA, BB: p.BB, AB: p.AB, DD: p.DD}, isFinite(p.DD)
}

// distance has the results of one pass over the values of two tensors. A NaN equals a NaN, and an infinity equals
// itself; neither is part of the sums.
type distance struct {
	Errors
	differing          uint64
	unmatched          uint64 // pairs of a NaN and another value, or of different infinities
	unmatchedAt        uint64 // the first such pair
	maxAbs, maxRel     float64
	maxAbsAt, maxRelAt uint64
}

// compare adds to m the distances between the values a[i] and b[i], which are element first+i of their tensors. b is as long as a. It sums
// them in batches, so that rounding errors stay small. It looks at single pairs of a batch in two cases: a value is not finite, or a pair
// is farther apart than m.maxAbs or m.maxRel.
func compare[T float](m *distance, a, b []T, first uint64) {
	for len(a) > 0 {
		n := min(batch, len(a))
		p := moments.PairsOf(a[:n], b[:n], m.maxRel)
		d := distance{differing: p.Differing}
		sums, finite := errorsOf(n, p)
		if !finite || p.Most > m.maxAbs || p.Exceeding > 0 { // Exceeding counts pairs beyond m.maxRel
			d = differences(a[:n], b[:n], first)
		}
		if finite { // the same sums whether or not the pairs were looked at
			d.Errors = sums
		}
		m.merge(d)
		a, b, first = a[n:], b[n:], first+uint64(n)
	}
}

// differences returns the distances between the values a[i] and b[i], which are element first+i of their tensors. b is at least as long as
// a. Pairs with a NaN or an infinity are counted, and have no part in the sums and maxima. If no value differs, maxAbsAt and maxRelAt are
// first. Conversions to float64 keep machines from fusing a product with a sum: all get the same results.
func differences[T float](a, b []T, first uint64) (m distance) {
	b = b[:len(a)]
	var notFinite, differing uint64
	var aa, bb, ab, dd, maxAbs, maxRel float64
	var maxAbsAt, maxRelAt int
	for i, v := range a {
		x, y := float64(v), float64(b[i])
		d := math.Abs(x - y)
		if !isFinite(d) && !(isFinite(x) && isFinite(y)) { // the difference of two finite values may overflow
			m.addNotFinite(x, y, first+uint64(i))
			notFinite++
			continue
		}
		differing += oneIf(x != y)
		aa += float64(x * x)
		bb += float64(y * y)
		ab += float64(x * y)
		dd += float64(d * d)
		if d > maxAbs {
			maxAbs, maxAbsAt = d, i
		}
		if larger := max(math.Abs(x), math.Abs(y)); d > float64(maxRel*larger) { // d/larger > rel, without a division
			maxRel, maxRelAt = d/larger, i
		}
	}
	m.Errors = Errors{Values: uint64(len(a)) - notFinite, AA: aa, BB: bb, AB: ab, DD: dd}
	m.differing += differing // addNotFinite has counted the others
	m.maxAbs, m.maxAbsAt, m.maxRel, m.maxRelAt = maxAbs, first+uint64(maxAbsAt), maxRel, first+uint64(maxRelAt)
	return m
}

// addNotFinite counts the pair of x and y at element at. At least one of the two is NaN or infinite. It counts as differing and unmatched,
// unless both are NaN or the same infinity.
func (m *distance) addNotFinite(x, y float64, at uint64) {
	if x == y || x != x && y != y {
		return
	}
	if m.unmatched == 0 {
		m.unmatchedAt = at
	}
	m.unmatched++
	m.differing++
}

// merge adds to m the distances o of later elements. If both have the same maximum, the earlier element keeps it.
func (m *distance) merge(o distance) {
	m.differing += o.differing
	if m.unmatched == 0 {
		m.unmatchedAt = o.unmatchedAt
	}
	m.unmatched += o.unmatched
	if o.maxAbs > m.maxAbs {
		m.maxAbs, m.maxAbsAt = o.maxAbs, o.maxAbsAt
	}
	if o.maxRel > m.maxRel {
		m.maxRel, m.maxRelAt = o.maxRel, o.maxRelAt
	}
	m.Add(o.Errors)
}
