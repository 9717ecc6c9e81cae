package grid

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/glob"
	"github.com/tensormap/tensormap/internal/report"
)

// Query asks for a window of the list.
type Query struct {
	Search string // words, or a glob if it has one of *?[{\
	Group  string // "role", "layer", or "none"
	Sort   string // a key of the table keys, with - before it for the largest first; "" for the order of the network
	Show   string // a type, "odd", or "" for all
	Open   []string
	Unfold int // number of groups that are open at least: the groups of Open, and the first others
	From   int
	Count  int
}

// maxTerms bounds the words of a search.
const maxTerms = 16

// List answers q. stats has the figures that are known by the numbers of tensors: it may be shorter than the model, and
// has nil for figures that are not known yet. An answer with a Problem has no rows. List fails if ctx ends.
func (x *Index) List(ctx context.Context, q Query, stats []*answer.TensorStat) (answer.ListAnswer, error) {
	a := answer.ListAnswer{Shows: []answer.Show{}, Window: []answer.ListRow{}}
	l := list{Index: x, ctx: ctx, query: q, stats: stats, open: make(map[string]bool, len(q.Open))}
	var ok bool
	if l.key, ok = keys[strings.TrimPrefix(q.Sort, "-")]; !ok && q.Sort != "" {
		a.Problem = fmt.Sprintf("There is no column %q to sort by.", q.Sort)
		return a, nil
	}
	l.isDescending = strings.HasPrefix(q.Sort, "-")
	for _, id := range q.Open {
		l.open[id] = true
	}
	if a.Problem = l.find(); a.Problem != "" || ctx.Err() != nil {
		return a, context.Cause(ctx)
	}
	a.Shows = l.show()
	a.Matches = l.matches
	l.window(&a, l.items(), 0)
	return a, context.Cause(ctx)
}

// list makes one answer.
type list struct {
	*Index
	ctx          context.Context
	query        Query
	stats        []*answer.TensorStat
	open         map[string]bool
	key          func(*list, *totals) float64
	isDescending bool
	terms        []term
	found        []bool // which tensors are left
	matches      int    // how many matches there are
	alone        totals // see total
}

// item is a tensor, or a group of the list.
type item struct {
	number int32 // of a tensor, if group is nil
	group  *group
}

// group is a row that can be unfolded.
type group struct {
	id, name string
	search   string  // finds its tensors; "" if none does
	numbers  []int32 // of its tensors
	items    []item  // nil if they are the tensors of numbers
	experts  int
	isRole   bool
	totals   *totals
}

// find finds the tensors that the search asks for. It returns why it cannot be understood, or "". Once the context ends, it finds no more.
func (l *list) find() (problem string) {
	if len(l.query.Search) > glob.MaxBytes {
		return fmt.Sprintf("A search has at most %d bytes.", glob.MaxBytes)
	}
	if strings.ContainsAny(l.query.Search, `*?[{\`) {
		var pattern glob.Pattern
		if err := pattern.Set(strings.TrimSpace(l.query.Search)); err != nil {
			return "The pattern cannot be read: " + err.Error() + "."
		}
		l.found = make([]bool, len(l.Rows))
		for i := range l.Rows {
			if ended(l.ctx, i) {
				break
			}
			if pattern.Match(l.Rows[i].Name) {
				l.found[i] = true
				l.matches++
			}
		}
		return ""
	}
	if l.terms = l.Index.terms(l.query.Search); len(l.terms) > maxTerms {
		return fmt.Sprintf("A search has at most %d words.", maxTerms)
	}
	l.found, l.matches = l.search(l.ctx, l.terms)
	return ""
}

// ended reports whether ctx has ended. Of names in order it asks at every eighth alone.
func ended(ctx context.Context, i int) bool { return i%8 == 0 && ctx.Err() != nil }

// statOf returns the figures of a tensor, or nil if they are not known yet.
func statOf(stats []*answer.TensorStat, number int) *answer.TensorStat {
	if number < len(stats) {
		return stats[number]
	}
	return nil
}

// state says what is wrong with a tensor. The worst is the largest.
type state int

const (
	fine state = iota
	mild
	strong
	allZero
	infinite
	withNaN
	damaged
)

// stateOf returns the state of a tensor whose figures are s, which may be nil.
func stateOf(s *answer.TensorStat) state {
	switch {
	case s == nil:
		return fine
	case s.Kind == "damaged":
		return damaged
	case s.NaN > 0:
		return withNaN
	case s.PosInf+s.NegInf > 0:
		return infinite
	case s.Finite > 0 && s.Zeros == s.Finite && !s.Sampled:
		return allZero
	case s.Odd >= 2:
		return strong
	case s.Odd == 1:
		return mild
	}
	return fine
}

// maxShows bounds the types that can be filtered by.
const maxShows = 6

// show counts what each filter leaves of the tensors found, and leaves what the query's does.
func (l *list) show() []answer.Show {
	counts, odd, all := make([]int, len(l.typeNames)), 0, l.matches
	for i, ok := range l.found {
		if !ok {
			continue
		}
		counts[l.types[i]]++
		isOdd := stateOf(statOf(l.stats, i)) > fine
		if isOdd {
			odd++
		}
		switch show := l.query.Show; {
		case show == "", show == "odd" && isOdd, show == l.Rows[i].Type:
		default:
			l.found[i] = false
			l.matches--
		}
	}
	shows := []answer.Show{{Tensors: all}}
	order := byFrequency(counts)
	for _, i := range order[:min(len(order), maxShows)] {
		shows = append(shows, answer.Show{Show: l.typeNames[i], Tensors: counts[i]})
	}
	return append(shows, answer.Show{Show: "odd", Tensors: odd})
}

// items groups the tensors found.
func (l *list) items() []item {
	var inside []item
	switch l.query.Group {
	case "none":
		return l.tensors()
	case "layer":
		inside = l.byLayer()
	default:
		for i := range l.tree {
			if g := l.grouped(&l.tree[i]); len(g.numbers) > 0 {
				inside = append(inside, g.item())
			}
		}
	}
	var before, after []item
	for _, n := range l.Outside {
		switch {
		case !l.found[n]:
		case l.Rows[n].Part == Embeddings:
			before = append(before, item{number: int32(n)})
		default:
			after = append(after, item{number: int32(n)})
		}
	}
	return slices.Concat(before, inside, after)
}

// tensors returns all tensors found.
func (l *list) tensors() []item {
	items := make([]item, 0, l.matches)
	for i, ok := range l.found {
		if ok {
			items = append(items, item{number: int32(i)})
		}
	}
	return items
}

// item returns g, or its tensor if it has one alone.
func (g *group) item() item {
	if len(g.numbers) == 1 {
		return item{number: g.numbers[0]}
	}
	return item{group: g}
}

// grouped returns the group of a branch, with the tensors found.
func (l *list) grouped(b *branch) *group {
	g := &group{id: b.id, name: b.name, isRole: len(b.branches) == 0}
	if g.isRole {
		r := l.roles[b.roles[0]]
		g.experts, g.search = r.experts, r.glob(l.Index)
		for _, m := range r.members {
			if l.found[m.number] {
				g.numbers = append(g.numbers, int32(m.number))
			}
		}
		return g
	}
	for i := range b.branches {
		if one := l.grouped(&b.branches[i]); len(one.numbers) > 0 {
			g.items = append(g.items, one.item())
			g.numbers = append(g.numbers, one.numbers...)
		}
	}
	return g
}

// byLayer groups the tensors found by stack and layer, and experts of one role within.
func (l *list) byLayer() (items []item) {
	groups := make(map[[2]int]*group) // by stack and number of a layer
	var found []int32                 // of one role in one layer
	for i, r := range l.roles {
		for from := 0; from < len(r.members); {
			at := [2]int{r.stack, r.members[from].layer}
			found = found[:0]
			for ; from < len(r.members) && r.members[from].layer == at[1]; from++ {
				if n := r.members[from].number; l.found[n] {
					found = append(found, int32(n))
				}
			}
			if len(found) == 0 { // a search of many layers finds tensors of few
				continue
			}
			g := groups[at]
			if g == nil {
				g = &group{id: fmt.Sprintf("l%d.%d", at[0], at[1]), name: fmt.Sprintf("%s%d", l.stacks[r.stack], at[1])}
				groups[at] = g
			}
			g.numbers = append(g.numbers, found...)
			one := item{number: found[0]}
			if len(found) > 1 {
				one.group = &group{id: fmt.Sprintf("%s.r%d", g.id, i), name: r.suffix, numbers: slices.Clone(found)}
			}
			g.items = append(g.items, one)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(groups), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		items = append(items, groups[at].item())
	}
	return items
}

// window sorts items, counts them as rows, and describes the items in the query's window. Open groups follow with what they have.
func (l *list) window(a *answer.ListAnswer, items []item, depth int) {
	l.sort(items)
	for _, one := range items {
		g := one.group
		if g != nil && len(l.open) < l.query.Unfold {
			l.open[g.id] = true
		}
		if a.Rows >= l.query.From && len(a.Window) < l.query.Count && l.ctx.Err() == nil {
			a.Window = append(a.Window, l.row(one, depth))
		}
		a.Rows++
		if g == nil || !l.open[g.id] {
			continue
		}
		if g.items == nil && g.experts == 0 {
			for _, n := range g.numbers {
				g.items = append(g.items, item{number: n})
			}
		}
		l.window(a, g.items, depth+1)
	}
}

// totals sums up an item.
type totals struct {
	tensors  int
	first    int // the number of the first tensor
	bytes    uint64
	elements float64 // of each tensor; NaN if shapes differ
	stds     [2]float64
	maxSigma float64
	worst    state
	zeros    float64 // share
	counts   [damaged + 1]int
	sample   [damaged + 1]int // the number of a tensor of each state
	shape    []int            // nil if they differ
}

// keys has what items can be sorted by. NaN is unknown. Names and types are ranks.
var keys = map[string]func(*list, *totals) float64{
	"name":      func(l *list, t *totals) float64 { return float64(l.nameRanks()[t.first]) },
	"type":      func(l *list, t *totals) float64 { return float64(l.types[t.first]) },
	"elements":  func(_ *list, t *totals) float64 { return t.elements },
	"size":      func(_ *list, t *totals) float64 { return float64(t.bytes) },
	"std":       func(_ *list, t *totals) float64 { return t.stds[1] },
	"max_sigma": func(_ *list, t *totals) float64 { return t.maxSigma },
	"zeros":     func(_ *list, t *totals) float64 { return t.zeros },
	"note":      func(_ *list, t *totals) float64 { return float64(t.worst) },
}

// total sums up an item: a group once. It writes the totals of a tensor over the totals of the tensor before.
func (l *list) total(one item) *totals {
	t, numbers := &l.alone, []int32{one.number}
	if g := one.group; g != nil {
		if g.totals != nil {
			return g.totals
		}
		g.totals = new(totals)
		t, numbers = g.totals, g.numbers
	}
	nan := math.NaN()
	*t = totals{stds: [2]float64{nan, nan}, maxSigma: nan, zeros: nan}
	for _, n := range numbers {
		l.addTo(t, int(n))
	}
	return t
}

// addTo adds a tensor to t.
func (l *list) addTo(t *totals, number int) {
	row := &l.Rows[number]
	if t.tensors++; t.tensors == 1 {
		t.first, t.shape, t.elements = number, row.Shape, float64(row.Elements)
	} else if !slices.Equal(t.shape, row.Shape) {
		t.shape, t.elements = nil, math.NaN()
	}
	t.bytes += row.Bytes
	s := statOf(l.stats, number)
	state := stateOf(s)
	if t.counts[state]++; t.counts[state] == 1 {
		t.sample[state] = number
	}
	t.worst = max(t.worst, state)
	if s == nil || s.Error != "" {
		return
	}
	if std := float64(s.Std); !math.IsNaN(std) {
		if math.IsNaN(t.stds[0]) {
			t.stds = [2]float64{std, std}
		}
		t.stds[0], t.stds[1] = min(t.stds[0], std), max(t.stds[1], std)
	}
	if m := float64(s.MaxSigma); m > t.maxSigma || math.IsNaN(t.maxSigma) {
		t.maxSigma = m
	}
	if zeros := float64(s.Zeros) / float64(s.Finite); zeros > t.zeros || math.IsNaN(t.zeros) {
		t.zeros = zeros
	}
}

// nameRanks returns the places of tensors in the order of their names. It sorts them once.
func (x *Index) nameRanks() []int32 {
	x.ranksOnce.Do(func() {
		sorted := make([]int32, len(x.Rows))
		for i := range sorted {
			sorted[i] = int32(i)
		}
		slices.SortStableFunc(sorted, func(a, b int32) int { return report.CompareNatural(x.Rows[a].Name, x.Rows[b].Name) })
		x.ranks = make([]int32, len(x.Rows))
		for i, number := range sorted {
			x.ranks[number] = int32(i)
		}
	})
	return x.ranks
}

// sort orders items by the key of the query. Unknown values come last. Without groups it orders only the items that are shown.
func (l *list) sort(items []item) {
	if l.key == nil {
		return
	}
	sorted := make([]keyed, len(items))
	for i, one := range items {
		k := l.key(l, l.total(one))
		switch {
		case math.IsNaN(k):
			k = math.Inf(1)
		case l.isDescending:
			k = -k
		}
		sorted[i] = keyed{k, int32(i)}
	}
	if shown := l.query.From + l.query.Count; l.query.Group == "none" && shown < maxSelected {
		sorted = smallest(sorted, shown)
	} else {
		slices.SortFunc(sorted, keyed.compare)
	}
	before := slices.Clone(items)
	for i := range sorted {
		items[i] = before[sorted[i].at]
	}
}

// maxSelected bounds the items that smallest selects.
const maxSelected = 1024

// smallest returns the n smallest of all, ascending.
func smallest(all []keyed, n int) []keyed {
	var best []keyed
	for _, k := range all {
		if len(best) >= n {
			if n < 1 || k.compare(best[n-1]) > 0 {
				continue
			}
			best = best[:n-1]
		}
		at, _ := slices.BinarySearchFunc(best, k, keyed.compare)
		best = slices.Insert(best, at, k)
	}
	return best
}

// keyed is what an item is sorted by, and the place where it was.
type keyed struct {
	key float64
	at  int32
}

// compare orders by key, then by place.
func (k keyed) compare(other keyed) int {
	if c := cmp.Compare(k.key, other.key); c != 0 {
		return c
	}
	return int(k.at - other.at)
}

// row describes an item at a depth.
func (l *list) row(one item, depth int) answer.ListRow {
	t, g := l.total(one), one.group
	a := answer.ListRow{Depth: depth, Matched: []int{}, Tensors: t.tensors, Shape: t.shape, Bytes: t.bytes, MaxSigma: answer.Real(t.maxSigma),
		Stds: [2]answer.Real{answer.Real(t.stds[0]), answer.Real(t.stds[1])}}
	if g == nil {
		a.Tensor = &l.Rows[one.number]
		a.Name, a.Types, a.Matched, a.Note = a.Tensor.Name, a.Tensor.Type, matched(a.Tensor.Name, l.terms), l.note(int(one.number))
		return a
	}
	a.ID, a.Name, a.IsOpen, a.Experts, a.Search = g.id, g.name, l.open[g.id], g.experts, g.search
	a.Types, a.Note = l.typesOf(g.numbers), l.groupNote(g, t)
	if l.query.Group != "layer" {
		a.ByLayer = l.strip(g)
	}
	return a
}

// maxTypes bounds the types that a row names.
const maxTypes = 4

// typesOf names the types of tensors, the most frequent first.
func (l *list) typesOf(numbers []int32) string {
	counts := make([]int, len(l.typeNames))
	for _, n := range numbers {
		counts[l.types[n]]++
	}
	order := byFrequency(counts)
	var names []string
	for _, i := range order[:min(len(order), maxTypes)] {
		names = append(names, l.typeNames[i])
	}
	if len(order) > maxTypes {
		names = append(names, "…")
	}
	return strings.Join(names, " ")
}

// byFrequency returns the places of counts above 0. The place of the largest count is first.
func byFrequency(counts []int) (order []int) {
	for i, n := range counts {
		if n > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	return order
}

// maxStrip bounds the tensors of a strip that has all of them.
const maxStrip = 4096

// strip returns the tensors of a group by layer. A group with several roles, or a large one, has only the tensors that decide
// how a layer looks: the one of the worst state, and the one with the largest value in σ.
func (l *list) strip(r *group) [][]int {
	layers := make([][]int, len(l.Grid.Layers))
	for i := range layers {
		layers[i] = []int{}
	}
	all := r.isRole && (len(r.numbers) <= maxStrip || l.open[r.id])
	at := -1
	for _, n := range r.numbers {
		if layer := l.Rows[n].Layer; at < 0 || l.Grid.Layers[at] != layer {
			at, _ = slices.BinarySearch(l.Grid.Layers, layer)
		}
		cell := &layers[at]
		switch {
		case all || len(*cell) == 0:
			*cell = append(*cell, int(n))
		default:
			l.keepWorst(cell, int(n))
		}
	}
	return layers
}

// escaped makes globs match texts as they are.
var escaped = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`)

// glob returns a pattern that matches the names of r, whatever their layers and experts are.
func (r *role) glob(x *Index) string {
	stack := x.stacks[r.stack]
	rest := strings.TrimLeft(x.Rows[r.members[0].number].Name[len(stack):], "0123456789")
	pattern := escaped.Replace(stack) + "*" + rest[:1] + escaped.Replace(r.before)
	if r.experts > 0 {
		pattern += "*" + escaped.Replace(r.after)
	}
	return pattern
}

// keepWorst keeps one or two tensors of a cell and n: the one of the worst state, then the one with the largest value in σ.
func (l *list) keepWorst(cell *[]int, n int) {
	worst, largest := (*cell)[0], (*cell)[len(*cell)-1]
	if stateOf(statOf(l.stats, n)) > stateOf(statOf(l.stats, worst)) {
		worst = n
	}
	sigma := func(n int) float64 {
		if s := statOf(l.stats, n); s != nil && !math.IsNaN(float64(s.MaxSigma)) {
			return float64(s.MaxSigma)
		}
		return -1
	}
	if sigma(n) > sigma(largest) {
		largest = n
	}
	if *cell = append((*cell)[:0], worst); largest != worst {
		*cell = append(*cell, largest)
	}
}

// note says what is wrong with one tensor: "12 NaN".
func (l *list) note(number int) string {
	s := statOf(l.stats, number)
	switch stateOf(s) {
	case damaged:
		return "damaged"
	case withNaN:
		return fmt.Sprintf("%d NaN", s.NaN)
	case infinite:
		return fmt.Sprintf("%d infinite", s.PosInf+s.NegInf)
	case allZero:
		return "all zero"
	}
	if s != nil {
		return s.Kind
	}
	return ""
}

// groupNotes says, behind their number, what is wrong with tensors of a state.
var groupNotes = [...]string{allZero: "all zero", infinite: "with infinities", withNaN: "with NaN", damaged: "damaged"}

// groupNote says what is wrong with tensors of a group: "1 damaged, 3 all zero", "12 NaN in layer 23", "layers 1, 2".
func (l *list) groupNote(g *group, t *totals) string {
	var notes []string
	for s := damaged; s >= allZero; s-- {
		if n := t.counts[s]; n > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n, groupNotes[s]))
		}
	}
	if len(notes) == 1 && g.isRole && g.experts == 0 && t.counts[t.worst] == 1 && t.worst > strong {
		one := t.sample[t.worst]
		return fmt.Sprintf("%s in layer %d", l.note(one), l.Rows[one].Layer)
	}
	if len(notes) > 0 || !g.isRole || t.worst < mild {
		return strings.Join(notes, ", ")
	}
	var layers []int
	for _, n := range g.numbers {
		if s := stateOf(statOf(l.stats, int(n))); s == t.worst {
			layers = append(layers, l.Rows[n].Layer)
		}
	}
	return Numbered("layer", layers)
}

// Numbered names things by their numbers: "layers 0–3, 7", "layer 5".
func Numbered(thing string, numbers []int) string {
	text, n := Ranges(numbers)
	if n != 1 {
		thing += "s"
	}
	return thing + " " + text
}

// Ranges writes numbers as ranges, ascending: "0–3, 7, 8". It returns how many numbers there are. Beyond six ranges it writes how many
// more numbers there are.
func Ranges(numbers []int) (text string, n int) {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	return report.Ranges(numbers, "–", ", ", 6), len(numbers)
}
