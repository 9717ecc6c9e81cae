package inspection

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// writeTables writes an inspection as tables.
func (in *inspection) writeTables(w *bufio.Writer, s report.Screen, opts *Options) {
	totals, all := in.totals()
	in.header(&all, opts).Write(w, s)
	if len(in.summary) > 0 {
		w.WriteString("\n")
		summaryFacts(in.summary).Write(w, s)
	}
	if opts.Metadata && len(in.metadata) > 0 {
		w.WriteString("\n")
		metadataFacts("", in.metadata).Write(w, s)
	}
	if in.graph != nil {
		w.WriteString("\n")
		writeGraph(w, in.graph, s)
	}
	if in.fit != nil {
		w.WriteString("\n")
		in.fit.write(w, s)
		return
	}
	if in.count == 0 {
		return
	}
	w.WriteString("\n")
	if opts.Tree || in.isGrouped(opts) {
		t := newTree(in.selected)
		t.sort(opts.Order)
		t.treeGrid(opts.Depth).Write(w, s)
	} else {
		in.sortTensors(opts.Order)
		in.tensorGrid().Write(w, s)
	}
	w.WriteString("\n")
	totalsGrid(totals, &all).Write(w, s)
}

// isGrouped reports whether tensors are shown as a tree because there are too many to read one by one.
func (in *inspection) isGrouped(opts *Options) bool {
	const most = 60
	return opts.GroupMany && in.count > most
}

// header returns the facts about the model, from its files to its size. all has the sums over the tensors that are shown.
func (in *inspection) header(all *report.Total, opts *Options) report.Facts {
	var f report.Facts
	in.addFiles(&f)
	format := in.Format().String()
	if in.index.Version != "" {
		format += " " + report.Printable(in.index.Version)
	}
	f.Add("format", format)
	if s := in.signature; s != nil {
		state := "not verified"
		if s.Verified {
			state = "verified"
		}
		f.Add("signed by", report.Printable(s.By)+", "+state)
	}
	if e := in.encryption; e != nil {
		text := e.Algorithm + ", " + e.KDF
		if e.KeyID != "" {
			text += ", key " + report.Printable(strconv.Quote(e.KeyID))
		}
		if !e.Verified {
			text += ", not verified"
		}
		f.Add("encrypted with", text)
	}
	if len(in.index.Flags) > 0 {
		f.Add("flags", report.Printable(strings.Join(in.index.Flags, ", ")))
	}
	tensors := report.Grouped(in.Len())
	if opts.Filter.Pattern != "" {
		tensors = fmt.Sprintf("%s of %s match %s", report.Grouped(all.Tensors), tensors, report.Printable(opts.Filter.Pattern))
	}
	if in.isGrouped(opts) {
		tensors += " (--all lists each)"
	}
	f.Add("tensors", tensors)
	f.Add("elements", report.Exactly(report.Count(all.Elements), all.Elements, 1000, ""))
	f.Add("data", report.Size(all.Bytes))
	return f
}

// addFiles adds the files of a model. Several have the numbers that the tensors' table calls them
// by; of more than a person reads, the rows in the middle are left out.
func (in *inspection) addFiles(f *report.Facts) {
	const most, first, last = 12, 6, 3
	n, all := len(in.files), uint64(0)
	for _, file := range in.files {
		all += file.Size
	}
	if n == 1 {
		f.Add("file", report.Printable(in.files[0].Path))
	} else {
		f.Add("files", report.Grouped(n))
	}
	f.Add("size", report.Exactly(report.Size(all), all, 1024, " bytes"))
	for i := 0; n > 1 && i < n; i++ {
		if n > most && i == first {
			i = n - last
			f.Add("…", fmt.Sprintf("%s more (--json lists all)", report.Grouped(i-first)))
		}
		f.Add("file "+strconv.Itoa(i), fmt.Sprintf("%s, %s", report.Printable(in.files[i].Path), report.Size(in.files[i].Size)))
	}
}

// summaryFacts returns a summary, shortened to what a person reads: a hostile file may be one long name.
func summaryFacts(summary []layout.Fact) (f report.Facts) {
	const most, width = 24, 320 // lines of a fact, and characters of a line
	for _, fact := range summary {
		lines := strings.SplitN(fact.Value, "\n", most+1)
		for i, line := range lines {
			lines[i] = report.Shorten(report.Printable(line), width)
		}
		if len(lines) > most {
			lines[most] = "…"
		}
		f.Add(report.Printable(fact.Label), strings.Join(lines, "\n"))
	}
	return f
}

// totals returns the sums over tensors of each dtype or scheme, the largest first, and over all.
func (in *inspection) totals() (by []report.Total, all report.Total) {
	sums := make(map[string]*report.Total)
	for t := range in.selected {
		one := report.Total{Kind: report.Kind(t), Tensors: 1, Elements: t.Elements(), Bytes: t.StoredBytes()}
		report.AddTo(sums, one)
		all.Add(one)
	}
	return report.LargestFirst(sums), all
}

// totalsGrid returns a table of the sums.
func totalsGrid(by []report.Total, all *report.Total) *report.Grid {
	g := &report.Grid{
		Heading: []string{"dtype", ">tensors", ">elements", ">size", ">share"},
		Rows: report.Rows(by, func(t *report.Total) []string {
			return []string{t.Kind, report.Grouped(t.Tensors), report.Grouped(t.Elements), report.Size(t.Bytes), report.Share(t.Bytes, all.Bytes)}
		}),
	}
	if len(by) > 1 {
		g.Total = []string{"total", report.Grouped(all.Tensors), report.Grouped(all.Elements), report.Size(all.Bytes), ""}
	}
	return g
}

// tensorGrid returns a table with a line for each tensor. Several files, and notes, have a column.
func (in *inspection) tensorGrid() *report.Grid {
	return &report.Grid{
		Heading:  []string{"name", "dtype", ">shape", ">elements", ">size", ">offset", ">file", "note"},
		Optional: []string{"file", "note"},
		Spare:    []string{"elements", "offset"},
		Rows: func(yield func([]string) bool) {
			var row []string
			for t := range in.selected {
				file := ""
				if len(in.files) > 1 {
					file = strconv.Itoa(t.File())
				}
				row = append(row[:0], report.Name(t.Name()), report.Kind(t), report.ShapeText(t.Shape()),
					report.Grouped(t.Elements()), report.Size(t.StoredBytes()), strconv.FormatUint(t.Offset(), 10), file, in.note(t))
				if !yield(row) {
					return
				}
			}
		},
	}
}

// note returns what the columns do not say of a tensor: its encoding, alignment, scale, and why it has no values.
func (in *inspection) note(t loader.Tensor) string {
	var notes []string
	index := in.files[t.File()].Layout.Index()
	switch {
	case t.Encoding() != layout.Raw:
		notes = append(notes, fmt.Sprintf("%s, %s raw", t.Encoding(), report.Size(t.RawBytes())))
	case t.StoredBytes() > 0 && t.Scheme() == nil && !index.Aligned(&layout.Tensor{DType: t.DType(), Offset: t.Offset()}): // mapped or not
		notes = append(notes, "unaligned, copied on use")
	}
	if why := ProblemText(t); why != "" {
		notes = append(notes, "no values: "+report.Shorten(report.Printable(why), 160))
	}
	q, scaled, err := t.Scale()
	if err != nil {
		notes = append(notes, "scale unreadable")
	}
	if scaled {
		notes = append(notes, fmt.Sprintf("scale %g", q.Scale))
	}
	if scaled && q.Zero != 0 {
		notes = append(notes, fmt.Sprintf("zero point %d", q.Zero))
	}
	return strings.Join(notes, ", ")
}
