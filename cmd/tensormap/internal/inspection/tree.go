package inspection

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

// treeDepth is the maximum number of levels that a name is divided into. The last level has the rest of the name,
// so that a name made of dots costs no more than another.
const treeDepth = 32

// tree groups tensors by the prefixes of their names, which end at dots and slashes.
type tree struct{ node }

// node is a tensor, or a prefix that names of tensors share, or several such that differ in a number only.
type node struct {
	label    string  // the node's part of the name; a prefix includes the separator that ends it
	children []*node // none for a tensor
	shape    []int   // of a tensor
	// form is the same number for nodes whose tensors have the same names below the node and the same shapes.
	form int

	tensors, elements, bytes uint64   // sums over all tensors of the node
	kinds                    []string // dtypes and schemes of all tensors below; nodes may share the slice
	file                     int      // of the first tensor in the order of the file
	offset                   uint64   // of that tensor
}

// isLeaf reports whether n is a tensor, or several of one shape, and no prefix.
func (n *node) isLeaf() bool { return len(n.children) == 0 }

// newTree returns the tree of tensors, whose nodes have the order of their first tensors.
func newTree(tensors iter.Seq[loader.Tensor]) *tree {
	b := treeBuilder{forms: make(map[string]int), kinds: make(map[string][]string)}
	t := &tree{}
	const at, level = 0, 0 // of the root, whose prefix is empty
	b.build(&t.node, slices.Collect(tensors), at, level)
	return t
}

// treeBuilder makes the nodes of one tree. Equal nodes get equal forms.
type treeBuilder struct {
	forms map[string]int      // by a text that describes the form
	kinds map[string][]string // lists of one kind
}

// build adds the nodes of tensors below n, which is the root or a prefix, and sets the sums and the form of n. The names of
// the tensors agree in the first at bytes, which are those of n and the nodes above it; level is how many nodes these are.
func (b *treeBuilder) build(n *node, tensors []loader.Tensor, at, level int) {
	children := make([]*node, 0, 1)
	below := make(map[*node][]loader.Tensor) // the tensors of each prefix
	var prefixes map[string]*node
	for _, t := range tensors {
		rest := t.Name()[at:]
		prefix := ""
		if level < treeDepth-1 {
			prefix = rest[:strings.IndexAny(rest, "./")+1]
		}
		if prefix == "" {
			children = append(children, b.leaf(t, rest))
			continue
		}
		child := prefixes[prefix]
		if child == nil {
			child = &node{label: prefix}
			children = append(children, child)
			if prefixes == nil {
				prefixes = make(map[string]*node)
			}
			prefixes[prefix] = child
		}
		below[child] = append(below[child], t)
	}
	for _, child := range children {
		if list := below[child]; list != nil {
			b.build(child, list, at+len(child.label), level+1)
			delete(below, child)
		}
	}
	n.children = mergeNumbered(children)
	for _, child := range n.children {
		child.absorbOnlyChildren()
		n.add(child)
	}
	n.form = b.form(n.childKeys())
}

// leaf returns the node of one tensor.
func (b *treeBuilder) leaf(t loader.Tensor, label string) *node {
	kind := report.Kind(t)
	if b.kinds[kind] == nil {
		b.kinds[kind] = []string{kind}
	}
	return &node{
		label: label, shape: t.Shape(), form: b.form(fmt.Sprint(t.Shape())), tensors: 1, elements: t.Elements(), bytes: t.StoredBytes(),
		kinds: b.kinds[kind], file: t.File(), offset: t.Offset(),
	}
}

// form returns the number of the form that text describes.
func (b *treeBuilder) form(text string) int {
	if _, ok := b.forms[text]; !ok {
		b.forms[text] = len(b.forms)
	}
	return b.forms[text]
}

// childKeys returns the keys of all children, sorted, as one text: nodes with equal texts have the same form.
func (n *node) childKeys() string {
	keys := make([]string, len(n.children))
	for i, child := range n.children {
		keys[i] = child.key()
	}
	slices.Sort(keys)
	return strings.Join(keys, "\x00\x00") // names have no NUL bytes
}

// key returns a text of n's label and form. Children with equal keys are merged if their parents are.
func (n *node) key() string { return n.label + "\x00" + strconv.Itoa(n.form) }

// add adds the sums of other to those of n.
func (n *node) add(other *node) {
	if n.tensors == 0 {
		n.file, n.offset = other.file, other.offset
	}
	n.tensors += other.tensors
	n.elements += other.elements
	n.bytes += other.bytes
	if n.kinds == nil {
		n.kinds = slices.Clip(other.kinds)
	}
	for _, kind := range other.kinds {
		if !slices.Contains(n.kinds, kind) {
			n.kinds = append(slices.Clip(n.kinds), kind)
		}
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

// number returns the label of n without its separator if that is a number, and else "". A number with leading zeros is none, as 01 and 1
// are different names.
func (n *node) number() string {
	digits := strings.TrimRight(n.label, "./")
	isLong := len(digits) > 9 || len(n.label) > len(digits)+1
	if digits == "" || isLong || leadingDigits(digits) != digits || digits != "0" && digits[0] == '0' {
		return ""
	}
	return digits
}

// mergeNumbered returns siblings, but with one node such as {0..31} in place of all nodes of one form whose labels are numbers. The one
// node is where the first of them was, and has the sums of all. The slice siblings is overwritten.
func mergeNumbered(siblings []*node) []*node {
	type alike struct {
		form      int
		separator string
	}
	groups := make(map[alike][]*node)
	for _, n := range siblings {
		if digits := n.number(); digits != "" {
			key := alike{n.form, n.label[len(digits):]}
			groups[key] = append(groups[key], n)
		}
	}
	merged := make(map[*node]bool)
	for key, nodes := range groups {
		if len(nodes) == 1 {
			continue
		}
		numbers := make([]int, len(nodes))
		for i, n := range nodes {
			numbers[i], _ = strconv.Atoi(n.number())
		}
		slices.Sort(numbers)
		label := "{" + rangesText(numbers) + "}" + key.separator
		for _, other := range nodes[1:] {
			nodes[0].merge(other)
			merged[other] = true
		}
		nodes[0].label = label
	}
	return slices.DeleteFunc(siblings, func(n *node) bool { return merged[n] })
}

// rangesText lists ascending numbers as text, three or more that follow each other as a range: "0,2..4".
func rangesText(numbers []int) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		end := i + 1
		for end < len(numbers) && numbers[end] == numbers[end-1]+1 {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(numbers[i]))
		if end-i > 2 {
			b.WriteString("..")
			b.WriteString(strconv.Itoa(numbers[end-1]))
			i = end
		} else {
			i++
		}
	}
	return b.String()
}

// merge adds the sums of other, a node of the same form, to those of n. It does likewise with each node below n and that
// below other with the same key.
func (n *node) merge(other *node) {
	n.add(other)
	below := make(map[string][]*node, len(other.children))
	for _, child := range other.children {
		below[child.key()] = append(below[child.key()], child)
	}
	for _, child := range n.children {
		key := child.key()
		child.merge(below[key][0])
		below[key] = below[key][1:]
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

// types returns n's kinds as text, sorted.
func (n *node) types() string { return strings.Join(slices.Sorted(slices.Values(n.kinds)), ", ") }

// treeGrid returns a table with a line for each node, down to depth levels; 0 means all.
func (t *tree) treeGrid(depth int) *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", ">tensors", ">elements", ">size", ">share", "dtype", ">shape"},
		Spare:   []string{"share", "elements", "tensors", "shape"},
	}
	g.Rows = func(yield func([]string) bool) {
		w := treeWriter{yield, t.bytes, depth}
		const branch, indent, level = "", "", 1
		for _, child := range t.children {
			if !w.write(child, branch, indent, level) {
				return
			}
		}
	}
	return g
}

// treeWriter yields the rows of a tree.
type treeWriter struct {
	yield func([]string) bool
	bytes uint64 // of all tensors
	depth int    // levels to show; 0 means all
}

// write yields the row of n and those of the nodes below it. The name of n stands behind the text branch, theirs behind
// indent. It returns false as soon as yield does.
func (w *treeWriter) write(n *node, branch, indent string, level int) bool {
	shape := ""
	if n.isLeaf() {
		shape = report.ShapeText(n.shape)
	}
	if !w.yield([]string{branch + n.name(), report.Grouped(n.tensors), report.Count(n.elements), report.Size(n.bytes),
		report.Share(n.bytes, w.bytes), n.types(), shape}) {
		return false
	}
	if level == w.depth {
		return true
	}
	for i, child := range n.children {
		into, below := "├─ ", "│  "
		if i == len(n.children)-1 {
			into, below = "└─ ", "   "
		}
		if !w.write(child, indent+into, indent+below, level+1) {
			return false
		}
	}
	return true
}

// name returns the label of n as it is shown: that of a prefix without the separator that ends it, unless it is nothing but
// the separator.
func (n *node) name() string {
	label := n.label
	if !n.isLeaf() && len(label) > 1 {
		label = label[:len(label)-1]
	}
	return report.Name(label)
}
