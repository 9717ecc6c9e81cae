package main

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// writeTables shows an inspection to a person.
func writeTables(w *bufio.Writer, in *inspection, s screen, opts *inspectOptions) {
	totals, all := in.totals()
	in.header(&all, opts).write(w, s)
	if len(in.summary) > 0 {
		w.WriteString("\n")
		summaryFacts(in.summary).write(w, s)
	}
	if opts.metadata && len(in.Metadata) > 0 {
		w.WriteString("\n")
		metadataFacts(in.Metadata).write(w, s)
	}
	if in.Graph != nil {
		w.WriteString("\n")
		writeGraph(w, in.Graph, s)
	}
	if in.count == 0 {
		return
	}
	w.WriteString("\n")
	if opts.tree {
		t := newTree(in.tensors())
		t.sort(opts.order.value)
		t.treeGrid(opts.depth).write(w, s)
	} else {
		in.sortTensors(opts.order.value)
		in.tensorGrid().write(w, s)
	}
	w.WriteString("\n")
	totalsGrid(totals, &all).write(w, s)
}

func (in *inspection) header(all *total, opts *inspectOptions) facts {
	var f facts
	in.addFiles(&f)
	format := in.Format.String()
	if in.Version != "" {
		format += " " + printable(in.Version)
	}
	f.add("format", format)
	if len(in.Flags) > 0 {
		f.add("flags", printable(strings.Join(in.Flags, ", ")))
	}
	tensors := grouped(uint64(in.total))
	if opts.filter.pattern != "" {
		tensors = fmt.Sprintf("%s of %s match %s", grouped(all.tensors), tensors, printable(opts.filter.pattern))
	}
	f.add("tensors", tensors)
	f.add("elements", exactly(count(all.elements), all.elements, 1000, ""))
	f.add("data", size(all.bytes))
	return f
}

// addFiles adds the files of a model. Several have the numbers that the tensors' table calls them
// by; of more than a person reads, those in the middle are left out.
func (in *inspection) addFiles(f *facts) {
	const most, first, last = 12, 6, 3
	n, all := len(in.Files), uint64(0)
	for _, file := range in.Files {
		all += file.Size
	}
	if n == 1 {
		f.add("file", printable(in.Files[0].Path))
	} else {
		f.add("files", grouped(uint64(n)))
	}
	f.add("size", exactly(size(all), all, 1024, " bytes"))
	for i := 0; n > 1 && i < n; i++ {
		if n > most && i == first {
			i = n - last
			f.add("…", fmt.Sprintf("%s more (--json lists all)", grouped(uint64(i-first))))
		}
		f.add("file "+strconv.Itoa(i), fmt.Sprintf("%s, %s", printable(in.Files[i].Path), size(in.Files[i].Size)))
	}
}

// summaryFacts are what the format says first, as much as a person reads: a hostile file's name
// may be all of the file.
func summaryFacts(summary []layout.Fact) (f facts) {
	const most, width = 24, 320 // lines of a fact, and characters of a line
	for _, fact := range summary {
		lines := strings.SplitN(fact.Value, "\n", most+1)
		for i, line := range lines {
			lines[i] = shorten(printable(line), width)
		}
		if len(lines) > most {
			lines[most] = "…"
		}
		f.add(printable(fact.Label), strings.Join(lines, "\n"))
	}
	return f
}

// exactly adds to a rounded number what it is to the last digit, unless short says that.
func exactly(short string, n, rounded uint64, unit string) string {
	if n < rounded {
		return short
	}
	return fmt.Sprintf("%s (%s%s)", short, grouped(n), unit)
}

// total sums tensors up.
type total struct {
	dtype                    layout.DType
	tensors, elements, bytes uint64
}

func (t *total) add(info *tensorInfo) {
	t.tensors++
	t.elements += info.Elements
	t.bytes += info.StoredBytes
}

// totals sums up by dtype, the largest first, and over all.
func (in *inspection) totals() (by []total, all total) {
	sums := make(map[layout.DType]*total)
	for t := range in.tensors() {
		addTo(sums, t)
		all.add(t)
	}
	return largestFirst(sums), all
}

func addTo(sums map[layout.DType]*total, t *tensorInfo) {
	if sums[t.DType] == nil {
		sums[t.DType] = &total{dtype: t.DType}
	}
	sums[t.DType].add(t)
}

func largestFirst(sums map[layout.DType]*total) (by []total) {
	for _, sum := range sums {
		by = append(by, *sum)
	}
	slices.SortFunc(by, func(a, b total) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.dtype.String(), b.dtype.String()))
	})
	return by
}

func totalsGrid(by []total, all *total) *grid {
	g := &grid{
		heading: []string{"dtype", "tensors", "elements", "size", "share"},
		numbers: []bool{false, true, true, true, true},
	}
	var rows [][]string
	for _, t := range by {
		rows = append(rows, []string{t.dtype.String(), grouped(t.tensors), grouped(t.elements), size(t.bytes), share(t.bytes, all.bytes)})
	}
	g.rows = slices.Values(rows)
	if len(by) > 1 {
		g.total = []string{"total", grouped(all.tensors), grouped(all.elements), size(all.bytes), ""}
	}
	return g
}

// share is what part of all n is.
func share(n, all uint64) string {
	if all == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(all))
}

// tensorGrid has a line a tensor. Which file it is in, and what is special about it, have
// columns only where there is something to say.
func (in *inspection) tensorGrid() *grid {
	g := &grid{
		heading: []string{"name", "dtype", "shape", "elements", "size", "offset"},
		numbers: []bool{false, false, true, true, true, true},
		spare:   []string{"elements", "offset"},
	}
	if in.Sharded {
		g.heading, g.numbers = append(g.heading, "file"), append(g.numbers, true)
	}
	noted := false
	for t := range in.tensors() {
		noted = noted || t.note() != ""
	}
	if noted {
		g.heading, g.numbers = append(g.heading, "note"), append(g.numbers, false)
	}
	g.rows = func(yield func([]string) bool) {
		row := make([]string, 0, len(g.heading))
		for t := range in.tensors() {
			row = append(row[:0], t.name(), t.DType.String(), t.shape(), grouped(t.Elements), size(t.StoredBytes), strconv.FormatUint(t.Offset, 10))
			if in.Sharded {
				row = append(row, strconv.Itoa(t.File))
			}
			if noted {
				row = append(row, t.note())
			}
			if !yield(row) {
				return
			}
		}
	}
	return g
}

func (t *tensorInfo) name() string { return shownName(t.Name) }

func (t *tensorInfo) shape() string {
	if len(t.Shape) == 0 {
		return "scalar"
	}
	var text []byte
	for i, dim := range t.Shape {
		if i > 0 {
			text = append(text, "×"...)
		}
		text = strconv.AppendUint(text, dim, 10)
	}
	return string(text)
}

func (t *tensorInfo) note() string {
	if t.Encoding == layout.Raw && !t.unaligned && !t.scaleUnreadable && t.Scale == nil && t.ZeroPoint == nil {
		return ""
	}
	var notes []string
	switch {
	case t.Encoding != layout.Raw:
		notes = append(notes, fmt.Sprintf("%s, %s raw", t.Encoding, size(t.RawBytes)))
	case t.unaligned:
		notes = append(notes, "unaligned, copied on use")
	}
	if t.scaleUnreadable {
		notes = append(notes, "scale unreadable")
	}
	if t.Scale != nil {
		notes = append(notes, fmt.Sprintf("scale %g", *t.Scale))
	}
	if t.ZeroPoint != nil && *t.ZeroPoint != 0 {
		notes = append(notes, fmt.Sprintf("zero point %d", *t.ZeroPoint))
	}
	return strings.Join(notes, ", ")
}
