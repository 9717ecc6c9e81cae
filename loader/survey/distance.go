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

// Add adds the sums o of other pairs of values to the sums of e.
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

// ErrorsOf returns the errors of the values b against the values a. Both must have the same length. It leaves out pairs with NaN or an
// infinity.
func ErrorsOf(a, b []float32) Errors {
	d := Distance{MaxAbs: math.Inf(1), MaxRel: math.Inf(1)} // no pair is farther apart, so compare searches none for a new maximum
	compare(&d, a, b, 0)
	return d.Errors
}

// Distance says how far the values of two tensors are apart. A NaN is equal to a NaN whatever its bits, the two zeros are equal, and an
// infinity is equal to itself.
type Distance struct {
	Differing uint64 // values that are not equal
	// Unmatched counts the differing values whose difference is not finite: one is NaN or infinite, or
	// both are different infinities. The figures below leave them out.
	Unmatched   uint64
	UnmatchedAt uint64 // the first of them, as a row-major number
	// MaxAbs is the largest |a−b|, and MaxAbsAt the first element that has it.
	MaxAbs   float64
	MaxAbsAt uint64
	// MaxRel is the largest |a−b| / max(|a|, |b|), and MaxRelAt the first element that has it.
	MaxRel   float64
	MaxRelAt uint64
	Errors   // sums over all pairs of finite values
}

// compare adds to m the distances between the values a[i] and b[i], which are element first+i of their tensors. b is as long as a. It sums
// mergeStep of them at a time, so that rounding errors stay small. It looks at single pairs in two cases: a value is not finite, or a pair is
// farther apart than m.MaxAbs or m.MaxRel.
func compare[T float](m *Distance, a, b []T, first uint64) {
	for len(a) > 0 {
		n := min(mergeStep, len(a))
		p := moments.PairsOf(a[:n], b[:n], m.MaxRel)
		d := Distance{Differing: p.Differing}
		finite := isFinite(p.DD)                             // no value is NaN or infinite, and the sum does not overflow
		if !finite || p.Most > m.MaxAbs || p.Exceeding > 0 { // Exceeding counts pairs beyond m.MaxRel
			d = differences(a[:n], b[:n], first)
		}
		if finite { // the same sums whether or not the pairs were looked at
			d.Errors = Errors{Values: uint64(n), AA: p.AA, BB: p.BB, AB: p.AB, DD: p.DD}
		}
		m.merge(d)
		a, b, first = a[n:], b[n:], first+uint64(n)
	}
}

// differences returns the distances between the values a[i] and b[i], which are element first+i of their tensors. b is at least as long as
// a. A pair with a NaN or an infinity has no part in the sums and maxima: if its values differ, it counts as Differing and Unmatched.
// Conversions to float64 keep processors from fusing a product with a sum, so that all of them get the same results.
func differences[T float](a, b []T, first uint64) (m Distance) {
	b = b[:len(a)]
	for i, v := range a {
		x, y, at := float64(v), float64(b[i]), first+uint64(i)
		isDifferent := x != y && (x == x || y == y) // not both NaN
		m.Differing += oneIf(isDifferent)
		if !isFinite(x) || !isFinite(y) {
			if isDifferent && m.Unmatched == 0 {
				m.UnmatchedAt = at
			}
			m.Unmatched += oneIf(isDifferent)
			continue
		}
		d := math.Abs(x - y)
		m.Values++
		m.AA += float64(x * x)
		m.BB += float64(y * y)
		m.AB += float64(x * y)
		m.DD += float64(d * d)
		if d > m.MaxAbs {
			m.MaxAbs, m.MaxAbsAt = d, at
		}
		if larger := max(math.Abs(x), math.Abs(y)); d > float64(m.MaxRel*larger) { // d/larger > rel, without a division
			m.MaxRel, m.MaxRelAt = d/larger, at
		}
	}
	return m
}

// merge adds to m the distances o of later elements. If both have the same maximum, the earlier element keeps it.
func (m *Distance) merge(o Distance) {
	m.Differing += o.Differing
	if m.Unmatched == 0 {
		m.UnmatchedAt = o.UnmatchedAt
	}
	m.Unmatched += o.Unmatched
	if o.MaxAbs > m.MaxAbs {
		m.MaxAbs, m.MaxAbsAt = o.MaxAbs, o.MaxAbsAt
	}
	if o.MaxRel > m.MaxRel {
		m.MaxRel, m.MaxRelAt = o.MaxRel, o.MaxRelAt
	}
	m.Add(o.Errors)
}
