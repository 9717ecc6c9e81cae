// Package odd says in words what is odd about a model's figures, and about the comparison of two models. Its rules are few
// and fixed, so that a sentence says what was found, and next to it what that is compared with. It calls nothing good or bad.
//
// A severity is 3 (damaged, NaN, infinite), 2 (strong), 1 (mild) or 0 (checked, and fine). Findings of one rule, role and
// severity are one sentence. The largest values of a sample are bounds. It never shows that there is none of something, so
// no finding says that.
package odd

import (
	"cmp"
	"math"
	"slices"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/internal/report"
)

// Severities.
const (
	isFine = iota
	isMild
	isStrong
	isBroken
)

// Bounds of a report. Odd has no bound but the number of tensors.
const (
	maxFindings = 200
	maxNumbers  = 4096 // tensors of one finding
)

// Report has what was found.
type Report struct {
	Findings []answer.Finding
	Odd      map[int]int // by number of a tensor: 2 if it has a strong finding or worse, 1 if a mild one
}

// found is a finding before it is sorted.
type found struct {
	answer.Finding
	order  int // of its rule, within a severity
	excess float64
}

// finder collects findings about tensors of an index.
type finder struct {
	*grid.Index
	all []found
	odd map[int]int // Report.Odd
}

// add adds a finding about tensors.
func (f *finder) add(rule string, severity, order int, excess float64, numbers []int, text, evidence string) {
	for _, n := range numbers {
		f.odd[n] = max(f.odd[n], min(severity, isStrong))
	}
	f.all = append(f.all, found{answer.Finding{Rule: rule, Severity: severity, Text: text, Evidence: evidence, Tensors: numbers}, order, excess})
}

// role returns a number for the role of a tensor, which outside the grid is a role of its own.
func (f *finder) role(n int) int {
	if n < len(f.Rows) && f.RoleNumber(n) >= 0 {
		return f.RoleNumber(n)
	}
	return -1 - n
}

// report sorts what was found, and returns it within the bounds. The finding fine stands last, unless it is nil.
func (f *finder) report(fine *answer.Finding) Report {
	slices.SortStableFunc(f.all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.order, b.order), cmp.Compare(b.excess, a.excess))
	})
	findings := []answer.Finding{}
	for _, one := range f.all[:min(len(f.all), maxFindings)] {
		one.Tensors = one.Tensors[:min(len(one.Tensors), maxNumbers)]
		findings = append(findings, one.Finding)
	}
	for _, rest := range groups(f.all[len(findings):], func(found) bool { return true }, func(one found) int { return one.Severity }) {
		more := answer.Finding{Rule: "more", Severity: rest[0].Severity, Text: "**More of the same:** " + report.Counted(len(rest), "finding")}
		for _, one := range rest {
			more.Tensors = append(more.Tensors, one.Tensors[:min(len(one.Tensors), maxNumbers-len(more.Tensors))]...)
		}
		findings = append(findings, more)
	}
	if fine != nil {
		findings = append(findings, *fine)
	}
	return Report{findings, f.odd}
}

// groups returns the items that keep lets through, grouped by their key. Groups and items are in the order of items.
func groups[T any, K comparable](items []T, keep func(T) bool, key func(T) K) (all [][]T) {
	places := make(map[K]int)
	for _, item := range items {
		if !keep(item) {
			continue
		}
		at, ok := places[key(item)]
		if !ok {
			at = len(all)
			places[key(item)] = at
			all = append(all, nil)
		}
		all[at] = append(all[at], item)
	}
	return all
}

// extremes returns the smallest and the largest figure of things, or NaN if one is NaN.
func extremes[T any](list []T, figure func(T) float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, one := range list {
		low, high = min(low, figure(one)), max(high, figure(one))
	}
	return low, high
}

// median returns the median of values, which it sorts, or NaN if there are fewer than leastOfRole.
func median(values []float64) float64 {
	if len(values) < leastOfRole {
		return math.NaN()
	}
	return middle(values)
}

// middle returns the median of one value or more, which it sorts.
func middle(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
