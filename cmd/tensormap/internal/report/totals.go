package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/loader"
)

// Exactly returns short, a rounded number, followed by n in full with its unit. Numbers below rounded are not rounded.
func Exactly(short string, n, rounded uint64, unit string) string {
	if n < rounded {
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

// Add adds a tensor.
func (t *Total) Add(elements, bytes uint64) {
	t.Tensors++
	t.Elements += elements
	t.Bytes += bytes
}

// AddTo adds a tensor to the sum of its kind.
func AddTo(sums map[string]*Total, kind string, elements, bytes uint64) {
	if sums[kind] == nil {
		sums[kind] = &Total{Kind: kind}
	}
	sums[kind].Add(elements, bytes)
}

// FindOrAdd returns the first element of list for which isMeant is true. If there is none, it appends added and
// returns that.
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

// Share formats n as a share of all.
func Share(n, all uint64) string {
	if all == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(all))
}

// ShapeText returns a shape as it is shown.
func ShapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	var text []byte
	for i, dim := range shape {
		if i > 0 {
			text = append(text, "×"...)
		}
		text = strconv.AppendInt(text, int64(dim), 10)
	}
	return string(text)
}
