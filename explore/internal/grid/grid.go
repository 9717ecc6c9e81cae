package grid

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/explore/internal/answer"
)

// Index knows where a model's tensors stand in its network. It does not change, and may be used concurrently.
type Index struct {
	Rows    []answer.TensorRow // of all tensors, with Role, Layer, Expert and Part
	Grid    answer.Grid
	Outside []int // numbers of tensors that Grid lacks: embeddings first, else in the model's order
	Parts   []answer.PartTotal
	Names   string // the convention that names follow: "Hugging Face, BERT"; "" if none is known
	Hidden  int    // the hidden size of the network; 0 if no name tells it
	Example string // a search that finds something; "" if there are no words

	stacks []string // what stands before numbers of layers
	roles  []*role
	roleOf []int // of each tensor; −1 outside
	words  words
	tree   tree

	kinds     []Kind   // of each tensor
	types     []int32  // of each tensor: its type's place in typeNames
	typeNames []string // sorted

	ranksOnce sync.Once
	ranks     []int32 // see nameRanks
}

// role has the tensors of one role in one stack.
type role struct {
	stack  int
	name   string // as Grid has it
	suffix string // as names have it, with {0..19} for experts: "mlp.experts.{0..19}.down_proj.weight"
	// before and after are what suffix has around {0..19}. Without experts all is in before.
	before, after string
	path          string // suffix without experts and parameter: "mlp.experts.down_proj"
	parameter     string // "weight", "bias", …; ""
	kind          *kind
	vector        bool
	shape         []int // nil if they differ
	experts       int
	members       []member // by layer, then by expert
}

// member is a tensor of a role.
type member struct{ number, layer, expert int }

// roleKey tells roles apart.
type roleKey struct {
	stack         int
	before, after string // around the expert's number; all is in before without one
	isExpert      bool
}

// New makes the index of tensors in the model's order. It needs their Name, Shape, Type, Elements and Bytes, fills in Number, Role,
// Layer, Expert and Part, and keeps rows. Its time grows with their number and the bytes of their names: 200,000 take a second at most.
// It has no context: the index is made once for all requests, and that of one may end.
func New(rows []answer.TensorRow) *Index {
	x := &Index{Rows: rows, Outside: []int{}, Parts: []answer.PartTotal{}, roleOf: make([]int, len(rows))}
	x.collect(x.places())
	x.bound()
	x.describe()
	x.fill()
	x.Names = x.convention()
	x.rankTypes()
	x.fillKinds()
	x.words, x.tree = newWords(x), newTree(x)
	x.Example = x.example()
	return x
}

// rankTypes fills in types and typeNames.
func (x *Index) rankTypes() {
	ranks := make(map[string]int32)
	for i := range x.Rows {
		ranks[x.Rows[i].Type] = 0
	}
	x.typeNames = slices.Sorted(maps.Keys(ranks))
	for i, name := range x.typeNames {
		ranks[name] = int32(i)
	}
	x.types = make([]int32, len(x.Rows))
	for i := range x.Rows {
		x.types[i] = ranks[x.Rows[i].Type]
	}
}

const (
	maxStacks = 16
	// A stack with fewer tensors than this share of the largest is outside the grid.
	smallestStack = 1.0 / 20
	// The grid has at most cellsPerTensor cells for each tensor, and moreCells for small models.
	cellsPerTensor, moreCells = 16, 4096
)

// places finds the places of all tensors, and the stacks. A tensor outside has no stack: its place is zero.
func (x *Index) places() []place {
	all := make([]place, len(x.Rows))
	find := func(words bool) map[string]int {
		sizes := make(map[string]int)
		for i := range x.Rows {
			if p, ok := placed(x.Rows[i].Name, words); ok {
				all[i] = p
				sizes[p.stack]++
			}
		}
		return sizes
	}
	sizes := find(true)
	if len(sizes) == 0 {
		sizes = find(false)
		x.keepLargest(sizes, all)
	}
	largest := 0
	for _, n := range sizes {
		largest = max(largest, n)
	}
	for i := range all {
		if n := sizes[all[i].stack]; all[i].suffix != "" && n > 0 && float64(n) >= smallestStack*float64(largest) &&
			len(x.stacks) < maxStacks && !slices.Contains(x.stacks, all[i].stack) {
			x.stacks = append(x.stacks, all[i].stack)
		}
	}
	return all
}

// keepLargest leaves in sizes the stack with the most tensors alone, if it has two layers. Without a word for layers no
// more can be told.
func (x *Index) keepLargest(sizes map[string]int, all []place) {
	best, first := "", -1
	for i := range all {
		if all[i].suffix != "" && sizes[all[i].stack] > sizes[best] {
			best = all[i].stack
		}
	}
	several := false
	for i := range all {
		if all[i].suffix != "" && all[i].stack == best {
			if first < 0 {
				first = all[i].layer
			}
			several = several || all[i].layer != first
		}
	}
	maps.DeleteFunc(sizes, func(s string, _ int) bool { return s != best || !several })
}

// collect makes roles of places.
func (x *Index) collect(all []place) {
	stacks := make(map[string]int, len(x.stacks))
	for i, s := range x.stacks {
		stacks[s] = i
	}
	found := make(map[roleKey]int)
	for i, p := range all {
		x.roleOf[i] = -1
		stack, ok := stacks[p.stack]
		if !ok || p.suffix == "" {
			continue
		}
		key := roleKey{stack: stack, before: p.suffix}
		if p.expert >= 0 {
			key = roleKey{stack, p.before, p.after, true}
		}
		r, ok := found[key]
		if !ok {
			r = len(x.roles)
			found[key] = r
			x.roles = append(x.roles, &role{stack: stack})
		}
		x.roles[r].members = append(x.roles[r].members, member{i, p.layer, p.expert})
	}
	for key, r := range found {
		x.roles[r].named(key)
	}
}

// named orders the members, keeps one for each layer and expert, and finds out what the role is.
func (r *role) named(key roleKey) {
	slices.SortStableFunc(r.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.expert, b.expert))
	})
	r.members = slices.CompactFunc(r.members, func(a, b member) bool { return a.layer == b.layer && a.expert == b.expert })
	r.before, r.after = key.before, key.after
	r.suffix, r.path = key.before, key.before
	if key.isExpert {
		low, high, seen := r.members[0].expert, 0, make(map[int]bool)
		for _, m := range r.members {
			low, high, seen[m.expert] = min(low, m.expert), max(high, m.expert), true
		}
		r.experts = len(seen)
		r.suffix = fmt.Sprintf("%s{%d..%d}%s", key.before, low, high, key.after)
		r.path = key.before + strings.TrimLeft(key.after, "./")
	}
	r.path, r.parameter = module(strings.TrimRight(r.path, "./"))
	if r.kind = known(inLayers, r.path); r.kind == nil {
		r.kind = guess(r.path)
	}
}

// bound leaves the smallest roles out of a grid that would be mostly empty.
func (x *Index) bound() {
	budget := cellsPerTensor*len(x.Rows) + moreCells
	slices.SortStableFunc(x.roles, func(a, b *role) int { return cmp.Compare(len(b.members), len(a.members)) })
	layers := make(map[int]bool)
	for i, r := range x.roles {
		for _, m := range r.members {
			layers[m.layer] = true
		}
		if i > 0 && len(layers)*(i+1) > budget {
			x.roles = x.roles[:i]
			break
		}
	}
}

// describe finds out shapes, and puts roles into the order of the network.
func (x *Index) describe() {
	for _, r := range x.roles {
		first := &x.Rows[r.members[0].number]
		r.shape, r.vector = first.Shape, len(first.Shape) < 2
		for _, m := range r.members {
			if !slices.Equal(x.Rows[m.number].Shape, r.shape) {
				r.shape = nil
				break
			}
		}
	}
	slices.SortStableFunc(x.roles, func(a, b *role) int {
		return cmp.Or(cmp.Compare(a.stack, b.stack), cmp.Compare(a.kind.rank, b.kind.rank), compareBool(isBias(a.parameter), isBias(b.parameter)),
			cmp.Compare(a.members[0].number, b.members[0].number))
	})
	for i, r := range x.roles {
		for _, m := range r.members {
			x.roleOf[m.number] = i
		}
	}
	x.name()
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// name names the roles: as their suffix, of matrices without .weight, behind what tells the stacks apart.
func (x *Index) name() {
	titles := stackTitles(x.stacks)
	suffixes := make(map[[2]string]bool)
	for _, r := range x.roles {
		suffixes[[2]string{titles[r.stack], r.suffix}] = true
	}
	taken := make(map[string]bool)
	for _, r := range x.roles {
		short := r.suffix
		if cut, ok := strings.CutSuffix(short, ".weight"); ok && !r.vector && !suffixes[[2]string{titles[r.stack], cut}] {
			short = cut
		}
		r.name = titles[r.stack] + short
		for n := 2; taken[r.name]; n++ {
			r.name = fmt.Sprintf("%s%s (%d)", titles[r.stack], short, n)
		}
		taken[r.name] = true
	}
}

// stackTitles returns what tells stacks apart: "" if there is one, else their names without the parts that all begin or
// end with, such as "encoder." and "decoder.".
func stackTitles(stacks []string) []string {
	titles := make([]string, len(stacks))
	if len(stacks) < 2 {
		return titles
	}
	parts := make([][]string, len(stacks))
	for i, s := range stacks {
		parts[i] = strings.SplitAfter(s, ".")
		if n := len(parts[i]); parts[i][n-1] == "" {
			parts[i] = parts[i][:n-1]
		}
	}
	same := func(at func([]string) string) bool {
		for _, p := range parts {
			if len(p) == 0 || at(p) != at(parts[0]) {
				return false
			}
		}
		return true
	}
	for same(func(p []string) string { return p[0] }) {
		for i := range parts {
			parts[i] = parts[i][1:]
		}
	}
	for same(func(p []string) string { return p[len(p)-1] }) {
		for i := range parts {
			parts[i] = parts[i][:len(parts[i])-1]
		}
	}
	for i := range parts {
		titles[i] = strings.Join(parts[i], "")
	}
	return titles
}

// fill makes Grid, Outside, Parts and Hidden, and fills in the rows.
func (x *Index) fill() {
	totals := make(map[string]*answer.PartTotal)
	hidden := make(map[int]int)
	for i := range x.Rows {
		row := &x.Rows[i]
		row.Number, row.Layer, row.Expert = i, -1, -1
		k, parameter := x.kindOf(i)
		row.Part = k.part
		if x.roleOf[i] < 0 {
			x.Outside = append(x.Outside, i)
		}
		if axis := axisOf(k, parameter, row.Shape); axis >= 0 {
			hidden[row.Shape[axis]]++
		}
		t := totals[row.Part]
		if t == nil {
			t = &answer.PartTotal{Part: row.Part}
			totals[row.Part] = t
		}
		t.Tensors++
		t.Elements += row.Elements
		t.Bytes += row.Bytes
	}
	most := 0
	for size, n := range hidden {
		if n > most || n == most && size > x.Hidden {
			x.Hidden, most = size, n
		}
	}
	for _, t := range totals {
		x.Parts = append(x.Parts, *t)
	}
	slices.SortFunc(x.Parts, func(a, b answer.PartTotal) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Part, b.Part))
	})
	slices.SortStableFunc(x.Outside, func(a, b int) int {
		return compareBool(x.Rows[a].Part != Embeddings, x.Rows[b].Part != Embeddings)
	})
	x.fillGrid()
}

// kindOf returns what is known of a tensor, and which parameter of a module it is.
func (x *Index) kindOf(number int) (k *kind, parameter string) {
	if r := x.roleOf[number]; r >= 0 {
		return x.roles[r].kind, x.roles[r].parameter
	}
	path, parameter := module(x.Rows[number].Name)
	if k = known(beside, path); k == nil {
		k = guess(path)
	}
	if strings.HasPrefix(path, "embeddings.") || strings.Contains(path, ".embeddings.") {
		same := *k
		same.part = Embeddings
		k = &same
	}
	return k, parameter
}

// fillGrid makes Grid of roles, and fills in their tensors' rows.
func (x *Index) fillGrid() {
	x.Grid = answer.Grid{Layers: []int{}, Groups: []answer.GridGroup{}}
	columns := make(map[int]int)
	for _, r := range x.roles {
		for _, m := range r.members {
			columns[m.layer] = 0
		}
	}
	x.Grid.Layers = slices.AppendSeq(x.Grid.Layers, maps.Keys(columns))
	slices.Sort(x.Grid.Layers)
	for i, layer := range x.Grid.Layers {
		columns[layer] = i
	}
	titles := stackTitles(x.stacks)
	for stack := range x.stacks {
		for _, heading := range headings {
			group := answer.GridGroup{Name: heading}
			if len(x.stacks) > 1 {
				group.Name += ", " + strings.TrimRight(titles[stack], "./")
			}
			for _, r := range x.roles {
				if r.stack == stack && r.heading() == heading {
					group.Rows = append(group.Rows, x.gridRow(r, columns))
				}
			}
			if len(group.Rows) > 0 {
				x.Grid.Groups = append(x.Grid.Groups, group)
			}
		}
	}
	switch {
	case len(x.Rows) == 0:
		x.Grid.Why = "The model has no tensors."
	case len(x.Grid.Layers) == 0:
		x.Grid.Why = "No name has the number of a layer."
	case len(x.Grid.Layers) == 1:
		x.Grid.Why = "One layer makes no map."
	case !slices.ContainsFunc(x.roles, func(r *role) bool { return !r.vector }):
		x.Grid.Why = "No tensor of the layers is a matrix, so there is no map."
	}
}

// heading returns the heading of the group of rows that the role belongs to.
func (r *role) heading() string {
	switch {
	case r.vector || isBias(r.parameter):
		return "Norms and biases"
	case r.kind.part == Attention:
		return "Attention"
	case r.kind.part == FeedForward:
		return "Feed-forward"
	case r.kind.part == Recurrence:
		return "Recurrence"
	}
	return "Others"
}

// gridRow makes the row of a role, and fills in the rows of its tensors.
func (x *Index) gridRow(r *role, columns map[int]int) answer.GridRow {
	row := answer.GridRow{Role: r.name, Common: r.common(), Shape: r.shape, Vector: r.vector, Experts: r.experts, Cells: make([][]int, len(columns))}
	for i := range row.Cells {
		row.Cells[i] = []int{}
	}
	for _, m := range r.members {
		cell := &row.Cells[columns[m.layer]]
		*cell = append(*cell, m.number)
		t := &x.Rows[m.number]
		t.Role, t.Layer, t.Expert = r.name, m.layer, m.expert
	}
	return row
}

// common returns what the role is called in general, or "".
func (r *role) common() string {
	if r.kind.common != "" && isBias(r.parameter) {
		return "bias of the " + r.kind.common
	}
	return r.kind.common
}

// HiddenAxis returns the dimension of a tensor that is the hidden size of the network, or −1 if none is known to be.
func (x *Index) HiddenAxis(number int) int {
	k, parameter := x.kindOf(number)
	shape := x.Rows[number].Shape
	axis := axisOf(k, parameter, shape)
	if axis < 0 || shape[axis] == x.Hidden {
		return axis
	}
	for i, size := range shape { // stored the other way round, as GPT-2's matrices are
		if size == x.Hidden {
			return i
		}
	}
	return -1
}

// axisOf returns the dimension that tables say is the hidden size, or −1.
func axisOf(k *kind, parameter string, shape []int) int {
	axis := k.axis
	if isBias(parameter) {
		axis = k.biasAxis
	}
	switch {
	case axis == LastAxis && len(shape) > 0:
		return len(shape) - 1
	case axis == RowsAxis && len(shape) > 1:
		return len(shape) - 2
	}
	return -1
}

// Kind tells tensors apart by what their values do.
type Kind int

const (
	Matrix Kind = iota // two dimensions or more
	Bias               // of norms too
	Norm
	Vector // what is left
)

// Kind returns the kind of a tensor.
func (x *Index) Kind(number int) Kind { return x.kinds[number] }

// fillKinds fills in kinds: of roles once.
func (x *Index) fillKinds() {
	x.kinds = make([]Kind, len(x.Rows))
	for _, r := range x.roles {
		kind := x.findKind(r.members[0].number)
		for _, m := range r.members {
			x.kinds[m.number] = kind
		}
	}
	for _, number := range x.Outside {
		x.kinds[number] = x.findKind(number)
	}
}

// findKind finds the kind of a tensor in its name and shape.
func (x *Index) findKind(number int) Kind {
	k, parameter := x.kindOf(number)
	path, _ := module(x.Rows[number].Name)
	last := strings.ToLower(path[strings.LastIndexAny(path, "./")+1:])
	switch {
	case isBias(parameter):
		return Bias
	case strings.HasPrefix(k.common, "norm"), strings.Contains(last, "norm"), strings.HasPrefix(last, "ln_"):
		return Norm
	case len(x.Rows[number].Shape) > 1:
		return Matrix
	}
	return Vector
}

// Common returns what the tensor is called in general: "query projection", or "".
func (x *Index) Common(number int) string {
	k, parameter := x.kindOf(number)
	return (&role{kind: k, parameter: parameter}).common()
}

// RoleNumber returns a number that the tensors of one role share, or −1 outside the grid.
func (x *Index) RoleNumber(number int) int { return x.roleOf[number] }

// Title returns the role of a tensor, or its name outside the grid: without .weight if it is a matrix.
func (x *Index) Title(number int) string {
	row := &x.Rows[number]
	switch {
	case row.Role != "":
		return row.Role
	case len(row.Shape) > 1:
		return strings.TrimSuffix(row.Name, ".weight")
	}
	return row.Name
}
