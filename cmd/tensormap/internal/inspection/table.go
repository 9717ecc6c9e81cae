package inspection

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
)

// WriteTables shows an inspection to a person.
func WriteTables(w *bufio.Writer, in *inspection, s terminal.Screen, opts *Options) {
	totals, all := in.totals()
	in.header(&all, opts).Write(w, s)
	if len(in.summary) > 0 {
		w.WriteString("\n")
		summaryFacts(in.summary).Write(w, s)
	}
	if opts.Metadata && len(in.Metadata) > 0 {
		w.WriteString("\n")
		metadataFacts(in.Metadata).Write(w, s)
	}
	if in.Graph != nil {
		w.WriteString("\n")
		writeGraph(w, in.Graph, s)
	}
	if in.count == 0 {
		return
	}
	w.WriteString("\n")
	if opts.Tree {
		t := newTree(in.tensors())
		t.sort(opts.Order)
		t.treeGrid(opts.Depth).Write(w, s)
	} else {
		in.sortTensors(opts.Order)
		in.tensorGrid().Write(w, s)
	}
	w.WriteString("\n")
	totalsGrid(totals, &all).Write(w, s)
}

func (in *inspection) header(all *report.Total, opts *Options) report.Facts {
	var f report.Facts
	in.addFiles(&f)
	format := in.Format.String()
	if in.Version != "" {
		format += " " + terminal.Printable(in.Version)
	}
	f.Add("format", format)
	if s := in.Signature; s != nil {
		state := "not verified"
		if s.Verified {
			state = "verified"
		}
		f.Add("signed by", terminal.Printable(s.By)+", "+state)
	}
	if e := in.Encryption; e != nil {
		text := e.Algorithm + ", " + e.KDF
		if e.KeyID != "" {
			text += ", key " + terminal.Printable(strconv.Quote(e.KeyID))
		}
		if !e.Verified {
			text += ", not verified"
		}
		f.Add("encrypted with", text)
	}
	if len(in.Flags) > 0 {
		f.Add("flags", terminal.Printable(strings.Join(in.Flags, ", ")))
	}
	tensors := report.Grouped(uint64(in.total))
	if opts.Filter.Pattern != "" {
		tensors = fmt.Sprintf("%s of %s match %s", report.Grouped(all.Tensors), tensors, terminal.Printable(opts.Filter.Pattern))
	}
	f.Add("tensors", tensors)
	f.Add("elements", report.Exactly(report.Count(all.Elements), all.Elements, 1000, ""))
	f.Add("data", report.Size(all.Bytes))
	return f
}

// addFiles adds the files of a model. Several have the numbers that the tensors' table calls them
// by; of more than a person reads, those in the middle are left out.
func (in *inspection) addFiles(f *report.Facts) {
	const most, first, last = 12, 6, 3
	n, all := len(in.Files), uint64(0)
	for _, file := range in.Files {
		all += file.Size
	}
	if n == 1 {
		f.Add("file", terminal.Printable(in.Files[0].Path))
	} else {
		f.Add("files", report.Grouped(uint64(n)))
	}
	f.Add("size", report.Exactly(report.Size(all), all, 1024, " bytes"))
	for i := 0; n > 1 && i < n; i++ {
		if n > most && i == first {
			i = n - last
			f.Add("…", fmt.Sprintf("%s more (--json lists all)", report.Grouped(uint64(i-first))))
		}
		f.Add("file "+strconv.Itoa(i), fmt.Sprintf("%s, %s", terminal.Printable(in.Files[i].Path), report.Size(in.Files[i].Size)))
	}
}

// summaryFacts shortens a summary to as much as a person reads: a hostile file may be one name.
func summaryFacts(summary []layout.Fact) (f report.Facts) {
	const most, width = 24, 320 // lines of a fact, and characters of a line
	for _, fact := range summary {
		lines := strings.SplitN(fact.Value, "\n", most+1)
		for i, line := range lines {
			lines[i] = terminal.Shorten(terminal.Printable(line), width)
		}
		if len(lines) > most {
			lines[most] = "…"
		}
		f.Add(terminal.Printable(fact.Label), strings.Join(lines, "\n"))
	}
	return f
}

// totals sums up by dtype, the largest first, and over all.
func (in *inspection) totals() (by []report.Total, all report.Total) {
	sums := make(map[string]*report.Total)
	for t := range in.tensors() {
		report.AddTo(sums, t.kind(), t.Elements, t.StoredBytes)
		all.Add(t.Elements, t.StoredBytes)
	}
	return report.LargestFirst(sums), all
}

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

// tensorGrid returns a table with a line for each tensor. Files and notes have columns only if
// there is something to say.
func (in *inspection) tensorGrid() *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", "dtype", ">shape", ">elements", ">size", ">offset"},
		Spare:   []string{"elements", "offset"},
	}
	if in.Sharded {
		g.Heading = append(g.Heading, ">file")
	}
	noted := false
	for t := range in.tensors() {
		noted = noted || t.note() != ""
	}
	if noted {
		g.Heading = append(g.Heading, "note")
	}
	g.Rows = func(yield func([]string) bool) {
		row := make([]string, 0, len(g.Heading))
		for t := range in.tensors() {
			row = append(row[:0], terminal.Name(t.Name), t.kind(), report.ShapeText(t.Shape), report.Grouped(t.Elements), report.Size(t.StoredBytes), strconv.FormatUint(t.Offset, 10))
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

func (t *tensorInfo) note() string {
	if t.Encoding == layout.Raw && !t.unaligned && !t.scaleUnreadable && t.Scale == nil && t.ZeroPoint == nil && t.problem == nil {
		return ""
	}
	var notes []string
	switch {
	case t.Encoding != layout.Raw:
		notes = append(notes, fmt.Sprintf("%s, %s raw", t.Encoding, report.Size(t.RawBytes)))
	case t.unaligned:
		notes = append(notes, "unaligned, copied on use")
	}
	if t.problem != nil {
		_, why, _ := strings.Cut(t.problem.Error(), strconv.Quote(t.Name)+": ")
		notes = append(notes, "no values: "+terminal.Shorten(terminal.Printable(why), 160))
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
