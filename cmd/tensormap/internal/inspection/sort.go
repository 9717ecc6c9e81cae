package inspection

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

// orders are the ways to sort tensors and nodes of a tree, in the order that help shows. Equal ones stay in the order of the file.
var orders = []struct {
	name    string
	tensors func(a, b loader.Tensor) int
	nodes   func(a, b *node) int
}{
	{"name",
		func(a, b loader.Tensor) int { return report.CompareNatural(a.Name(), b.Name()) },
		func(a, b *node) int { return report.CompareNatural(a.label, b.label) }},
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
