package inspection

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

// treeDepth is the maximum number of levels that a name is divided into. The last level has the rest of the name,
// so that a name made of dots costs no more than another.
const treeDepth = 32

// node is a tensor, or a prefix that names of tensors share, or several such that differ in a number only.
type node struct {
	label    string  // the node's part of the name; a prefix ends with a dot or slash
	children []*node // none for a tensor
	shape    []int   // of a tensor
	// form is the same number for nodes whose tensors have the same names below the node and the same shapes.
	form int

	tensors, elements, bytes uint64 // sums over all tensors of the node
	types                    string // dtypes and schemes of all tensors of the node, sorted
	file                     int    // of the first tensor in the order of the file
	offset                   uint64 // of that tensor
}

// isLeaf reports whether n is a tensor, or several of one shape, and no prefix.
func (n *node) isLeaf() bool { return len(n.children) == 0 }

// newTree returns the root of a tree that groups tensors by the prefixes of their names. Nodes have the order of their first tensors.
func newTree(tensors iter.Seq[loader.Tensor]) *node {
	type place struct {
		parent *node
		label  string
	}
	root, prefixes := &node{}, make(map[place]*node)
	for t := range tensors {
		n, rest := root, t.Name()
		for range treeDepth - 1 {
			end := strings.IndexAny(rest, "./") + 1
			if end == 0 {
				break
			}
			at := place{n, rest[:end]}
			if prefixes[at] == nil {
				prefixes[at] = &node{label: rest[:end]}
				n.children = append(n.children, prefixes[at])
			}
			n, rest = prefixes[at], rest[end:]
		}
		n.children = append(n.children, &node{label: rest, shape: t.Shape(), tensors: 1, elements: t.Elements(), bytes: t.StoredBytes(),
			types: report.Kind(t), file: t.File(), offset: t.Offset()})
	}
	root.finish(make(map[string]int))
	return root
}

// finish merges nodes below n that are alike, and sets sums and form of n. forms has the form of nodes by a text that describes shape and
// children; a new text gets the next number.
func (n *node) finish(forms map[string]int) {
	for _, child := range n.children {
		child.finish(forms)
	}
	n.children = mergeNumbered(n.children)
	for _, child := range n.children {
		child.absorbOnlyChildren()
		n.add(child)
	}
	text := fmt.Append(nil, n.shape)
	for _, child := range n.sortedChildren() {
		text = fmt.Appendf(text, "%s\x00%d\x00", child.label, child.form) // names have no NUL bytes
	}
	form, ok := forms[string(text)]
	if !ok {
		form = len(forms)
		forms[string(text)] = form
	}
	n.form = form
}

// sortedChildren returns the children in an order that is the same for nodes of one form.
func (n *node) sortedChildren() []*node {
	return slices.SortedStableFunc(slices.Values(n.children), func(a, b *node) int {
		return cmp.Or(strings.Compare(a.label, b.label), cmp.Compare(a.form, b.form))
	})
}

// add adds the sums of other to the sums of n.
func (n *node) add(other *node) {
	if n.tensors == 0 {
		n.file, n.offset, n.types = other.file, other.offset, other.types
	}
	n.tensors += other.tensors
	n.elements += other.elements
	n.bytes += other.bytes
	if n.types != other.types {
		types := append(strings.Split(n.types, ", "), strings.Split(other.types, ", ")...)
		slices.Sort(types)
		n.types = strings.Join(slices.Compact(types), ", ")
	}
}

// absorbOnlyChildren merges n with its child, as long as there is just one: n gets the child's label behind its own, and its children.
func (n *node) absorbOnlyChildren() {
	for len(n.children) == 1 {
		child := n.children[0]
		n.label += child.label
		n.form, n.shape, n.children = child.form, child.shape, child.children
	}
}

// number returns the label of n without its separator as a number. ok is false if it is none, or has leading zeros: 01 and 1 are
// different names.
func (n *node) number() (i int, separator string, ok bool) {
	digits := strings.TrimRight(n.label, "./")
	i, err := strconv.Atoi(digits)
	separator = n.label[len(digits):]
	return i, separator, err == nil && i >= 0 && strconv.Itoa(i) == digits && len(separator) <= 1
}

// mergeNumbered returns siblings, but with one node such as {0..31} in place of all nodes of one form whose labels are numbers. The one
// node is where the first of them was, and has the sums of all. The slice siblings is overwritten.
func mergeNumbered(siblings []*node) []*node {
	type alike struct {
		form      int
		separator string
	}
	first, numbers := make(map[alike]*node), make(map[alike][]int)
	for _, n := range siblings {
		i, separator, ok := n.number()
		if !ok {
			continue
		}
		key := alike{n.form, separator}
		if numbers[key] = append(numbers[key], i); len(numbers[key]) == 1 {
			first[key] = n
		} else {
			first[key].merge(n)
			n.tensors = 0 // the first has them now
		}
	}
	for key, list := range numbers {
		if len(list) > 1 {
			slices.Sort(list)
			first[key].label = "{" + report.Ranges(list, "..", ",", math.MaxInt) + "}" + key.separator
		}
	}
	return slices.DeleteFunc(siblings, func(n *node) bool { return n.tensors == 0 })
}

// merge adds the sums of other, a node of the same form, to the sums of n, and likewise below them.
func (n *node) merge(other *node) {
	n.add(other)
	below := other.sortedChildren()
	for i, child := range n.sortedChildren() {
		child.merge(below[i])
	}
}

// sort sorts the children of each node by the order of this name; "" leaves them in the order of the file.
func (n *node) sort(order string) {
	for _, o := range orders {
		if o.name == order {
			slices.SortStableFunc(n.children, o.nodes)
		}
	}
	for _, child := range n.children {
		child.sort(order)
	}
}

// treeGrid returns a table with a line for each node below n, down to depth levels; 0 means all.
func (n *node) treeGrid(depth int) *report.Grid {
	return &report.Grid{
		Heading: []string{"name", ">tensors", ">elements", ">size", ">share", "dtype", ">shape"},
		Spare:   []string{"share", "elements", "tensors", "shape"},
		Rows: func(yield func([]string) bool) {
			n.walk("", 1, depth, func(name string, child *node) bool {
				shape := ""
				if child.isLeaf() {
					shape = report.ShapeText(child.shape)
				}
				return yield([]string{name, report.Grouped(child.tensors), report.Count(child.elements), report.Size(child.bytes),
					report.Share(child.bytes, n.bytes), child.types, shape})
			})
		},
	}
}

// walk calls visit with each node below n, down to the level depth, and its name behind the branches that lead to it. indent stands
// before the rows of n's children, which are of this level. It returns false as soon as visit does.
func (n *node) walk(indent string, level, depth int, visit func(name string, n *node) bool) bool {
	for i, child := range n.children {
		into, below := "├─ ", "│  "
		switch {
		case level == 1:
			into, below = "", ""
		case i == len(n.children)-1:
			into, below = "└─ ", "   "
		}
		if !visit(indent+into+child.name(), child) || level != depth && !child.walk(indent+below, level+1, depth, visit) {
			return false
		}
	}
	return true
}

// name returns the label of n as it is shown: a prefix without the separator that ends it, unless it is only the separator.
func (n *node) name() string {
	label := n.label
	if !n.isLeaf() && len(label) > 1 {
		label = label[:len(label)-1]
	}
	return report.Name(label)
}

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
