package inspection

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/loader"
)

// treeDepth is how many parts a name is split into at most; the last of them keeps what is
// left, so that a name made of dots costs no more than another.
const treeDepth = 32

// A tree groups tensors by the prefixes of their names, which end at dots and slashes.
type tree struct {
	node
	forms
}

// node is a part of tensors' names: a tensor, or a prefix that tensors share. There are as many nodes
// as tensors, and a file of nothing but tensors must not cost much more than its bytes.
type node struct {
	label string
	*branch

	tensors, elements, bytes uint64 // sums over all tensors below
	kinds                    *kinds // of these tensors
	offset                   uint64 // of the first tensor in the order of the file
	file                     int32  // of that tensor

	// form is the same number for nodes whose tensors have the same names below them and the
	// same shapes.
	form int32
}

// branch holds the nodes below a prefix.
type branch struct {
	children []*node
	byPart   map[string]*node // children by their part of the name, separator included
}

// none is the branch of every leaf.
var none = new(branch)

func (n *node) leaf() bool { return n.branch == none }

// kinds lists types of tensors as they came. Nodes with the same ones share the list.
type kinds struct {
	names []string
	with  map[string]*kinds // the list with another kind behind it
}

// add returns the list that has kind too.
func (k *kinds) add(kind string) *kinds {
	if slices.Contains(k.names, kind) {
		return k
	}
	longer := k.with[kind]
	if longer == nil {
		if k.with == nil {
			k.with = make(map[string]*kinds)
		}
		longer = &kinds{names: append(slices.Clip(k.names), kind)}
		k.with[kind] = longer
	}
	return longer
}

func newTree(tensors iter.Seq[loader.Tensor]) *tree {
	noKinds := new(kinds)
	t := &tree{node{branch: new(branch), kinds: noKinds}, forms{numbers: make(map[string]int32)}}
	for tensor := range tensors {
		leaf := &node{branch: none, kinds: noKinds, form: t.ofShape(tensor.Shape())}
		leaf.add(tensor)
		t.insert(leaf, tensor)
	}
	t.below(&t.node, 0)
	for _, child := range t.children {
		child.join()
	}
	return t
}

// insert puts the leaf of t below n, the root. A prefix of one tensor is no node before there is
// another: most tensors of most models are alone below theirs.
func (n *node) insert(leaf *node, t loader.Tensor) {
	n.add(t)
	rest := t.Name()
	for level := 0; ; level++ {
		part := prefix(rest, level)
		c := n.byPart[part]
		if c == nil {
			leaf.label = rest
			n.append(part, leaf)
			return
		}
		if c.split(level); c.byPart == nil {
			c.byPart = map[string]*node{}
			if part := prefix(c.children[0].label, level+1); part != "" {
				c.byPart[part] = c.children[0]
			}
		}
		c.add(t)
		n, rest = c, rest[len(part):]
	}
}

// prefix returns what rest, the part of a name below so many levels, has up to its first dot or
// slash; "" if there is none, or no level is left.
func prefix(rest string, level int) string {
	if level == treeDepth-1 {
		return ""
	}
	return rest[:strings.IndexAny(rest, "./")+1]
}

// append makes c, whose part of the name is part or that of a tensor, a child of n.
func (n *node) append(part string, c *node) {
	if part != "" {
		if n.byPart == nil {
			n.byPart = make(map[string]*node)
		}
		n.byPart[part] = c
	}
	n.children = append(n.children, c)
}

// split makes n, at so many levels, a prefix with a leaf below it if it is a leaf with a prefix.
func (n *node) split(level int) {
	part := prefix(n.label, level)
	if !n.leaf() || part == "" {
		return
	}
	leaf := *n
	leaf.label = n.label[len(part):]
	n.label, n.branch = part, &branch{children: []*node{&leaf}}
}

func (n *node) add(t loader.Tensor) {
	if n.tensors == 0 {
		n.file, n.offset = int32(t.File()), t.Offset()
	}
	n.tensors++
	n.elements += t.Elements()
	n.bytes += t.StoredBytes()
	n.kinds = n.kinds.add(report.Kind(t))
}

// join makes one node of a prefix and the only thing below it.
func (n *node) join() {
	for len(n.children) == 1 {
		child := n.children[0]
		n.label += child.label
		n.form, n.branch = child.form, child.branch
	}
	for _, child := range n.children {
		child.join()
	}
}

// numbered returns the number that a label consists of, without its separator, or "". A number
// with leading zeros is a name like any other: 01 and 1 differ.
func numbered(label string) string {
	digits := strings.TrimRight(label, "./")
	if digits == "" || len(digits) > 9 || leadingDigits(digits) != digits || len(label) > len(digits)+1 || digits != "0" && digits[0] == '0' {
		return ""
	}
	return digits
}

// forms numbers what nodes look like.
type forms struct {
	numbers map[string]int32
	shapes  [][]int // of leaves, by their forms
}

// below gives forms to the prefixes below n, which is below so many levels, and folds them.
func (f *forms) below(n *node, level int) {
	n.byPart = nil // which nobody asks any more
	for _, child := range n.children {
		if child.split(level); !child.leaf() {
			f.below(child, level+1)
			child.form = f.ofPrefix(child)
		}
	}
	n.children = fold(n.children)
}

// ofShape returns the form of tensors of that shape.
func (f *forms) ofShape(shape []int) int32 {
	var room [80]byte // enough for most
	key := append(room[:0], 0)
	for _, dim := range shape {
		key = binary.AppendUvarint(key, uint64(dim))
	}
	return f.number(key, shape)
}

// ofPrefix returns the form of n. The nodes below it have theirs.
func (f *forms) ofPrefix(n *node) int32 {
	key := binary.AppendUvarint(nil, uint64(len(n.children)))
	sorted := slices.SortedFunc(slices.Values(n.children), func(a, b *node) int {
		return cmp.Or(strings.Compare(a.label, b.label), cmp.Compare(a.form, b.form))
	})
	for _, child := range sorted {
		key = append(append(key, child.label...), 0) // names have no NUL bytes
		key = binary.AppendUvarint(key, uint64(child.form))
	}
	return f.number(key, nil)
}

// number returns the form that key describes, which is that of leaves of a shape or of prefixes.
func (f *forms) number(key []byte, shape []int) int32 {
	form, ok := f.numbers[string(key)]
	if !ok {
		form = int32(len(f.shapes))
		f.numbers[string(key)] = form
		f.shapes = append(f.shapes, shape)
	}
	return form
}

// alike is what siblings that make one node have in common.
type alike struct {
	form      int32
	separator string
}

func (n *node) alike() (a alike, ok bool) {
	digits := numbered(n.label)
	return alike{n.form, n.label[len(digits):]}, digits != ""
}

// fold makes one node of siblings that differ in their number only, where the first of them is.
func fold(siblings []*node) []*node {
	numbers := make(map[alike][]*node)
	for _, n := range siblings {
		if key, ok := n.alike(); ok {
			numbers[key] = append(numbers[key], n)
		}
	}
	if len(numbers) == 0 {
		return siblings
	}
	folded := make([]*node, 0, len(siblings))
	for _, n := range siblings {
		key, ok := n.alike()
		same := numbers[key]
		switch {
		case !ok || len(same) == 1:
			folded = append(folded, n)
		case same[0] == n:
			folded = append(folded, mergeAll(same, key.separator))
		}
	}
	return folded
}

// mergeAll merges all nodes into the first.
func mergeAll(nodes []*node, separator string) *node {
	n := *nodes[0] // a copy: the label of the first is still needed
	n.label = "{" + ranges(nodes) + "}" + separator
	for _, other := range nodes[1:] {
		n.merge(other)
	}
	return &n
}

// ranges lists the numbers of nodes: "0..31", "0,2..4".
func ranges(nodes []*node) string {
	numbers := make([]int, len(nodes))
	for i, n := range nodes {
		numbers[i], _ = strconv.Atoi(numbered(n.label))
	}
	slices.Sort(numbers)
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

// merge adds the sums of other, which has the same form, to those of n.
func (n *node) merge(other *node) {
	n.tensors += other.tensors
	n.elements += other.elements
	n.bytes += other.bytes
	for _, kind := range other.kinds.names {
		n.kinds = n.kinds.add(kind)
	}
	if len(n.children) == 0 {
		return
	}
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

// key returns a text that is equal for nodes that merge can make one of.
func (n *node) key() string { return n.label + "\x00" + strconv.Itoa(int(n.form)) }

// sort brings siblings into the order called so; "" is the order of the file.
func (n *node) sort(order string) {
	if compare := nodeOrders[order]; compare != nil {
		slices.SortStableFunc(n.children, compare)
	}
	for _, child := range n.children {
		child.sort(order)
	}
}

// nodeOrders are orders for what stands for many tensors.
var nodeOrders = map[string]func(a, b *node) int{
	"name":   func(a, b *node) int { return compareNatural(a.label, b.label) },
	"size":   func(a, b *node) int { return cmp.Compare(b.bytes, a.bytes) },
	"offset": func(a, b *node) int { return compareOffset(a.file, b.file, a.offset, b.offset) },
	"dtype":  func(a, b *node) int { return strings.Compare(a.types(), b.types()) },
}

// types lists the kinds below n.
func (n *node) types() string { return strings.Join(slices.Sorted(slices.Values(n.kinds.names)), ", ") }

// treeGrid returns a table with a line for each node, down to depth levels; 0 means all.
func (t *tree) treeGrid(depth int) *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", ">tensors", ">elements", ">size", ">share", "dtype", ">shape"},
		Spare:   []string{"share", "elements", "tensors", "shape"},
	}
	g.Rows = func(yield func([]string) bool) {
		w := treeWriter{yield, t.bytes, depth, t.shapes}
		for _, child := range t.children {
			if !w.write(child, "", "", 1) {
				return
			}
		}
	}
	return g
}

type treeWriter struct {
	yield  func([]string) bool
	all    uint64
	depth  int
	shapes [][]int // by form
}

// write yields n behind branch, and what is below it behind indent, and reports whether to go on.
func (w *treeWriter) write(n *node, branch, indent string, level int) bool {
	if !w.yield([]string{branch + n.name(), report.Grouped(n.tensors), report.Count(n.elements), report.Size(n.bytes),
		report.Share(n.bytes, w.all), n.types(), w.shape(n)}) {
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

// name returns the label as it is shown: a prefix loses the separator that ends it, unless there
// is nothing else.
func (n *node) name() string {
	label := n.label
	if !n.leaf() && len(label) > 1 {
		label = label[:len(label)-1]
	}
	return terminal.Name(label)
}

func (w *treeWriter) shape(n *node) string {
	if !n.leaf() {
		return ""
	}
	return report.ShapeText(w.shapes[n.form])
}
