package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/loader"
)

// Exactly returns short, the number n with few digits, followed by n in full with its unit in parentheses. If n is less than roundedFrom,
// short is exact, and Exactly returns it alone.
func Exactly(short string, n, roundedFrom uint64, unit string) string {
	if n < roundedFrom {
		return short
	}
	return fmt.Sprintf("%s (%s%s)", short, Grouped(n), unit)
}

// Kind names how a tensor is stored: by its dtype, or by the scheme of a quantized weight.
func Kind(t loader.Tensor) string { return cmp.Or(Scheme(t), t.DType().String()) }

// Scheme names the scheme of a quantized weight; it is empty for other tensors.
func Scheme(t loader.Tensor) string {
	if w := t.Scheme(); w != nil {
		return w.Scheme
	}
	return ""
}

// Total sums tensors of one kind up.
type Total struct {
	Kind                     string
	Tensors, Elements, Bytes uint64
}

// Add adds other to the sums.
func (t *Total) Add(other Total) {
	t.Tensors += other.Tensors
	t.Elements += other.Elements
	t.Bytes += other.Bytes
}

// AddTo adds t to the sum of its kind.
func AddTo(sums map[string]*Total, t Total) {
	sum := sums[t.Kind]
	if sum == nil {
		sum = &Total{Kind: t.Kind}
		sums[t.Kind] = sum
	}
	sum.Add(t)
}

// FindOrAdd returns a pointer to the first element of list for which isMeant is true. If there is none, it appends added to list and
// returns a pointer to that.
func FindOrAdd[T any](list *[]T, added T, isMeant func(*T) bool) *T {
	for i := range *list {
		if isMeant(&(*list)[i]) {
			return &(*list)[i]
		}
	}
	*list = append(*list, added)
	return &(*list)[len(*list)-1]
}

// LargestFirst returns the sums, of the most bytes first.
func LargestFirst(sums map[string]*Total) (by []Total) {
	for _, sum := range sums {
		by = append(by, *sum)
	}
	slices.SortFunc(by, func(a, b Total) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind))
	})
	return by
}

// Share formats n as a percentage of all, such as "12.5 %", and as a dash if all is 0.
func Share(n, all uint64) string {
	if all == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(all))
}

// IndexText returns the index of an element as dump takes it, such as "[99, 856]".
func IndexText(index []uint64) string { return strings.ReplaceAll(fmt.Sprint(index), " ", ", ") }

// ShapeText returns a shape as people read it, such as "3×4", and "scalar" for an empty one.
func ShapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "×")
}
