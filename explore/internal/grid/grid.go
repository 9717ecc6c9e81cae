// Package grid finds out from names where tensors stand in a network: their layer, their role in it, their expert, and the
// part of the network that they belong to. It searches names, and makes the list of tensors with its groups.
//
// Names are taken apart at dots and slashes. A number behind a word for layers is the layer's, as in model.layers.3 or
// blk.3; what stands before it is a stack of layers, what follows is the role. Nothing is known of a model but its index,
// so work and memory grow with the bytes of names, whatever numbers they have.
package grid

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/report"
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

	stacks   []string // what stands before numbers of layers
	roles    []*role
	roleOf   []int           // of each tensor; −1 outside
	meanings []*meaning      // of each tensor
	words    map[string]bool // of names, and of what roles are called in general
	tree     []branch        // a stack each

	types     []int    // of each tensor: its type's place in typeNames
	typeNames []string // sorted

	ranksOnce sync.Once
	ranks     []int32 // see nameRanks
}

// role has the tensors of one role in one stack.
type role struct {
	meaning
	stack  int
	name   string // as Grid has it
	suffix string // as names have it, with {0..19} for experts: "mlp.experts.{0..19}.down_proj.weight"
	// before and after are what suffix has around {0..19}. Without experts all is in before.
	before, after string
	path          string // suffix without experts and parameter: "mlp.experts.down_proj"
	vector        bool
	shape         []int // nil if they differ
	experts       int
	members       []member // by layer, then by expert
}

// member is a tensor of a role.
type member struct{ number, layer, expert int }

// meaning is what the names of a role say of its tensors, or what the name of a tensor outside the grid says.
type meaning struct {
	kind      *kind
	parameter string // "weight", "bias", …; ""
	values    Kind
}

// New makes the index of tensors in the model's order. It needs their Name, Shape, Type, Elements and Bytes, fills in Number, Role,
// Layer, Expert and Part, and keeps rows. Its time grows with their number and the bytes of their names: 200,000 take a second at most.
// It has no context: the index is made once for all requests, and the context of one may end.
func New(rows []answer.TensorRow) *Index {
	x := &Index{Rows: rows, Outside: []int{}, Parts: []answer.PartTotal{}, roleOf: make([]int, len(rows)),
		meanings: make([]*meaning, len(rows))}
	x.collect(x.places())
	x.bound()
	x.order()
	x.fill()
	x.Names = x.convention()
	x.rankTypes()
	x.words, x.tree = newWords(x), newTree(x)
	x.Example = x.example()
	return x
}

// rankTypes fills in types and typeNames.
func (x *Index) rankTypes() {
	types := make(map[string]bool)
	for i := range x.Rows {
		types[x.Rows[i].Type] = true
	}
	x.typeNames = slices.Sorted(maps.Keys(types))
	x.types = make([]int, len(x.Rows))
	for i := range x.Rows {
		x.types[i], _ = slices.BinarySearch(x.typeNames, x.Rows[i].Type)
	}
}

const (
	maxStacks = 16
	// A stack with fewer tensors than this share of the largest is outside the grid.
	smallestStack = 1.0 / 20
	// The grid has at most cellsPerTensor cells for each tensor, and moreCells for small models.
	cellsPerTensor, moreCells = 16, 4096
)

// places finds the places of all tensors, and the stacks. A tensor outside may have a place in no stack, or the zero place.
func (x *Index) places() []place {
	all := make([]place, len(x.Rows))
	for _, words := range []bool{true, false} {
		layers := make(map[string][]int) // of the tensors of each stack
		var order []string
		for i := range x.Rows {
			p, ok := placed(x.Rows[i].Name, words)
			if !ok {
				continue
			}
			if layers[p.stack] == nil {
				order = append(order, p.stack)
			}
			all[i], layers[p.stack] = p, append(layers[p.stack], p.layer)
		}
		largest := ""
		for _, name := range order {
			if len(layers[name]) > len(layers[largest]) {
				largest = name
			}
		}
		for _, name := range order {
			isStack := float64(len(layers[name])) >= smallestStack*float64(len(layers[largest]))
			if !words { // without a word for layers no more can be told
				isStack = name == largest && slices.Min(layers[name]) < slices.Max(layers[name])
			}
			if isStack && len(x.stacks) < maxStacks {
				x.stacks = append(x.stacks, name)
			}
		}
		if len(order) > 0 {
			break
		}
	}
	return all
}

// collect makes roles of places.
func (x *Index) collect(all []place) {
	found := make(map[place]*role)
	for i, p := range all {
		x.roleOf[i] = -1
		stack := slices.Index(x.stacks, p.stack)
		if stack < 0 || p.before == "" {
			continue
		}
		key := p
		key.layer, key.expert = 0, min(p.expert, 0)
		r := found[key]
		if r == nil {
			r = &role{stack: stack, before: p.before, after: p.after}
			found[key] = r
			x.roles = append(x.roles, r)
		}
		r.members = append(r.members, member{i, p.layer, p.expert})
	}
	for _, r := range x.roles {
		r.describe()
	}
}

// describe orders the members, keeps one for each layer and expert, and finds out what the role is.
func (r *role) describe() {
	slices.SortStableFunc(r.members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.expert, b.expert))
	})
	r.members = slices.CompactFunc(r.members, func(a, b member) bool { return a.layer == b.layer && a.expert == b.expert })
	r.suffix, r.path = r.before, r.before+strings.TrimLeft(r.after, "./")
	if r.members[0].expert >= 0 {
		low, high, seen := r.members[0].expert, 0, make(map[int]bool)
		for _, m := range r.members {
			low, high, seen[m.expert] = min(low, m.expert), max(high, m.expert), true
		}
		r.experts = len(seen)
		r.suffix = fmt.Sprintf("%s{%d..%d}%s", r.before, low, high, r.after)
	}
	r.path, r.parameter = module(strings.TrimRight(r.path, "./"))
	r.kind = kindIn(inLayers, r.path)
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

// order finds out shapes, and puts roles into the order of the network.
func (x *Index) order() {
	for _, r := range x.roles {
		first := &x.Rows[r.members[0].number]
		r.shape, r.vector, r.values = first.Shape, len(first.Shape) < 2, r.valuesOf(first)
		if slices.ContainsFunc(r.members, func(m member) bool { return !slices.Equal(x.Rows[m.number].Shape, first.Shape) }) {
			r.shape = nil
		}
	}
	rank := func(r *role) int { // biases follow what they are added to
		if isBias(r.parameter) {
			return 2*r.kind.rank + 1
		}
		return 2 * r.kind.rank
	}
	slices.SortStableFunc(x.roles, func(a, b *role) int {
		return cmp.Or(cmp.Compare(a.stack, b.stack), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.members[0].number, b.members[0].number))
	})
	for i, r := range x.roles {
		for _, m := range r.members {
			x.roleOf[m.number], x.meanings[m.number] = i, &r.meaning
		}
	}
	x.name()
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

// stackTitles returns what tells stacks apart: "" if there is one, else their names without the segments that all begin or
// end with, such as "encoder." and "decoder.".
func stackTitles(stacks []string) []string {
	titles := make([]string, len(stacks))
	if len(stacks) < 2 {
		return titles
	}
	segments := make([][]string, len(stacks))
	for i, s := range stacks {
		segments[i] = strings.SplitAfter(s, ".")
	}
	for range 2 { // from the beginning, then from the end
		for !slices.ContainsFunc(segments, func(p []string) bool { return len(p) == 0 || p[0] != segments[0][0] }) {
			for i := range segments {
				segments[i] = segments[i][1:]
			}
		}
		for _, p := range segments {
			slices.Reverse(p)
		}
	}
	for i := range segments {
		titles[i] = strings.Join(segments[i], "")
	}
	return titles
}

// fill makes Grid, Outside, Parts and Hidden, and fills in the rows.
func (x *Index) fill() {
	totals := make(map[string]*report.Total)
	hidden := make(map[int]int)
	var others []int // outside, which are no embeddings
	for i := range x.Rows {
		row := &x.Rows[i]
		row.Number, row.Layer, row.Expert = i, -1, -1
		if x.roleOf[i] < 0 {
			x.meanings[i] = meaningOf(row)
			if x.meanings[i].kind.part == Embeddings {
				x.Outside = append(x.Outside, i)
			} else {
				others = append(others, i)
			}
		}
		row.Part = x.meanings[i].kind.part
		if axis := x.meanings[i].axis(row.Shape); axis >= 0 {
			hidden[row.Shape[axis]]++
		}
		report.AddTo(totals, report.Total{Kind: row.Part, Tensors: 1, Elements: row.Elements, Bytes: row.Bytes})
	}
	most := 0
	for size, n := range hidden {
		if n > most || n == most && size > x.Hidden {
			x.Hidden, most = size, n
		}
	}
	for _, t := range report.LargestFirst(totals) {
		x.Parts = append(x.Parts, answer.PartTotal{Part: t.Kind, Tensors: t.Tensors, Elements: t.Elements, Bytes: t.Bytes})
	}
	x.Outside = append(x.Outside, others...)
	x.fillGrid()
}

// meaningOf returns what the name of a tensor outside the grid says.
func meaningOf(row *answer.TensorRow) *meaning {
	path, parameter := module(row.Name)
	m := &meaning{kind: kindIn(outsideLayers, path), parameter: parameter}
	if strings.HasPrefix(path, "embeddings.") || strings.Contains(path, ".embeddings.") {
		same := *m.kind
		same.part = Embeddings
		m.kind = &same
	}
	m.values = m.valuesOf(row)
	return m
}

// fillGrid makes Grid of roles, and fills in their tensors' rows.
func (x *Index) fillGrid() {
	layers := []int{}
	for _, r := range x.roles {
		for _, m := range r.members {
			if n := len(layers); n == 0 || layers[n-1] != m.layer {
				layers = append(layers, m.layer)
			}
		}
	}
	slices.Sort(layers)
	x.Grid = answer.Grid{Layers: slices.Compact(layers), Groups: []answer.GridGroup{}}
	titles := stackTitles(x.stacks)
	for stack := range x.stacks {
		for _, heading := range headings {
			group := answer.GridGroup{Name: heading}
			if len(x.stacks) > 1 {
				group.Name += ", " + strings.TrimRight(titles[stack], "./")
			}
			for _, r := range x.roles {
				if r.stack == stack && r.heading() == heading {
					group.Rows = append(group.Rows, x.gridRow(r))
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
func (x *Index) gridRow(r *role) answer.GridRow {
	row := answer.GridRow{Role: r.name, Common: r.common(), Shape: r.shape, Vector: r.vector, Experts: r.experts,
		Cells: make([][]int, len(x.Grid.Layers))}
	for i := range row.Cells {
		row.Cells[i] = []int{}
	}
	for _, m := range r.members {
		at, _ := slices.BinarySearch(x.Grid.Layers, m.layer)
		row.Cells[at] = append(row.Cells[at], m.number)
		t := &x.Rows[m.number]
		t.Role, t.Layer, t.Expert = r.name, m.layer, m.expert
	}
	return row
}

// common returns what tensors of a meaning are called in general, or "".
func (m *meaning) common() string {
	if m.kind.common != "" && isBias(m.parameter) {
		return "bias of the " + m.kind.common
	}
	return m.kind.common
}

// HiddenAxis returns the dimension of a tensor that is the hidden size of the network, or −1 if none is known to be.
func (x *Index) HiddenAxis(number int) int {
	shape := x.Rows[number].Shape
	axis := x.meanings[number].axis(shape)
	if axis < 0 || shape[axis] == x.Hidden {
		return axis
	}
	return slices.Index(shape, x.Hidden) // stored the other way round, as GPT-2's matrices are
}

// axis returns the dimension of a shape that tables say is the hidden size, or −1.
func (m *meaning) axis(shape []int) int {
	fromEnd := m.kind.axis
	if isBias(m.parameter) {
		fromEnd = m.kind.biasAxis
	}
	if fromEnd == noAxis || len(shape) < int(fromEnd) {
		return -1
	}
	return len(shape) - int(fromEnd)
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
func (x *Index) Kind(number int) Kind { return x.meanings[number].values }

// valuesOf returns the kind of a tensor of that meaning, by its name and shape.
func (m *meaning) valuesOf(row *answer.TensorRow) Kind {
	path, _ := module(row.Name)
	last := strings.ToLower(path[strings.LastIndexAny(path, "./")+1:])
	switch {
	case isBias(m.parameter):
		return Bias
	case strings.HasPrefix(m.kind.common, "norm"), strings.Contains(last, "norm"), strings.HasPrefix(last, "ln_"):
		return Norm
	case len(row.Shape) > 1:
		return Matrix
	}
	return Vector
}

// Common returns what the tensor is called in general: "query projection", or "".
func (x *Index) Common(number int) string { return x.meanings[number].common() }

// RoleNumber returns a number that the tensors of one role share, or −1 outside the grid.
func (x *Index) RoleNumber(number int) int { return x.roleOf[number] }

// Alike returns the numbers of tensors of the same role and expert, by layer. There are none outside the grid.
func (x *Index) Alike(number int) []int {
	same := []int{}
	if x.roleOf[number] < 0 {
		return same
	}
	for _, m := range x.roles[x.roleOf[number]].members {
		if m.expert == x.Rows[number].Expert {
			same = append(same, m.number)
		}
	}
	return same
}

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
