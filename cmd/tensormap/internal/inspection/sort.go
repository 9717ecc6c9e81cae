package inspection

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

// orders are the ways to sort tensors, and nodes of a tree, in the order that help shows them. Equal ones stay in the order of
// the file.
var orders = []struct {
	name    string
	tensors func(a, b loader.Tensor) int
	nodes   func(a, b *node) int
}{
	{"name",
		func(a, b loader.Tensor) int { return compareNatural(a.Name(), b.Name()) },
		func(a, b *node) int { return compareNatural(a.label, b.label) }},
	{"size",
		func(a, b loader.Tensor) int { return cmp.Compare(b.StoredBytes(), a.StoredBytes()) },
		func(a, b *node) int { return cmp.Compare(b.bytes, a.bytes) }},
	{"offset",
		func(a, b loader.Tensor) int { return compareOffset(a.File(), b.File(), a.Offset(), b.Offset()) },
		func(a, b *node) int { return compareOffset(a.file, b.file, a.offset, b.offset) }},
	{"dtype",
		func(a, b loader.Tensor) int { return strings.Compare(report.Kind(a), report.Kind(b)) },
		func(a, b *node) int { return strings.Compare(a.types, b.types) }},
}

// compareOffset compares positions, by file and then by offset.
func compareOffset(file, otherFile int, offset, otherOffset uint64) int {
	return cmp.Or(cmp.Compare(file, otherFile), cmp.Compare(offset, otherOffset))
}

// OrderNames returns the orders that Options.Order can have.
func OrderNames() (names []string) {
	for _, o := range orders {
		names = append(names, o.name)
	}
	return names
}

// sortTensors sorts the tensors that are shown by the order of this name. "" leaves them in the order of the file.
func (in *inspection) sortTensors(order string) {
	for _, o := range orders {
		if o.name == order {
			list := slices.AppendSeq(make([]loader.Tensor, 0, in.count), in.selected)
			slices.SortStableFunc(list, o.tensors)
			in.selected = slices.Values(list)
		}
	}
}

// compareNatural compares names byte by byte, but numbers in them by value: blk.2 comes before blk.10. It is 0 for equal names
// only.
func compareNatural(a, b string) int {
	whole := strings.Compare(a, b)
	for a != "" && b != "" {
		x, y := leadingDigits(a), leadingDigits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := compareNumbers(x, y); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// leadingDigits returns the digits that s begins with.
func leadingDigits(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
