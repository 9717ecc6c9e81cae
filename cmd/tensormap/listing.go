package main

import (
	"cmp"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
)

// sortKey is a value of --sort: score returns what rows are sorted by, the largest first. NaN comes last. Equal rows stay in their order.
type sortKey[R any] struct {
	name  string
	score func(*R) float64
}

// listing is a survey that lists tensors as rows: as they come or, with its flags --sort and --top, in that order at the end.
type listing[R any] struct {
	surveyOptions
	keys   []sortKey[R]           // the first is the key if --top comes alone; by name is another key
	name   func(*R) string        // of a row's tensor
	object func(*R) any           // a row in JSON
	grid   func([]R) *report.Grid // columns are as wide as its rows need, so that a long list is several tables

	by    choice
	top   uint
	rows  []R
	drawn int // tables that were written
}

// addTo declares the flags.
func (l *listing[R]) addTo(cmd *cobra.Command) {
	l.surveyOptions.addTo(cmd)
	for _, k := range l.keys {
		l.by.allowed = append(l.by.allowed, k.name)
	}
	l.by.allowed = append(l.by.allowed, "name")
	l.by.addTo(cmd, "sort", "order of the tensors, else that of the file")
	cmd.Flags().UintVar(&l.top, "top", 0, "only the first `N` tensors, by "+l.keys[0].name+" without --sort; 0 shows all")
}

// isSorted reports whether --sort or --top was given, so that rows have to be collected before they are written.
func (l *listing[R]) isSorted() bool { return l.by.value != "" || l.top > 0 }

// add adds a row. In JSON the array of rows has begun.
func (l *listing[R]) add(row *R) {
	l.rows = append(l.rows, *row)
	if !l.isSorted() && (l.asJSON || len(l.rows) == tableRows) {
		l.flush()
	}
}

// tableRows is the maximum number of rows in a table.
const tableRows = 4096

// flush writes the rows that have been added.
func (l *listing[R]) flush() {
	for rows := range slices.Chunk(l.rows, tableRows) {
		if !l.asJSON {
			l.draw(rows)
			continue
		}
		for i := range rows {
			l.json.Row(l.object(&rows[i]))
		}
	}
	clear(l.rows)
	l.rows = l.rows[:0]
}

// draw writes rows as a table.
func (l *listing[R]) draw(rows []R) {
	if l.drawn++; l.drawn > 1 {
		io.WriteString(l.w, "\n")
	}
	l.grid(rows).Write(l.w, terminal.ScreenOf(l.Out))
}

// writeRest writes the rows that have not been written: with --sort or --top in that order, at most as many as --top says.
func (l *listing[R]) writeRest() {
	if l.isSorted() {
		key := cmp.Or(l.by.value, l.keys[0].name)
		at := slices.IndexFunc(l.keys, func(k sortKey[R]) bool { return k.name == key })
		slices.SortStableFunc(l.rows, func(a, b R) int {
			if at < 0 {
				return cmp.Compare(l.name(&a), l.name(&b))
			}
			return cmp.Compare(l.keys[at].score(&b), l.keys[at].score(&a)) // NaN is less than all
		})
	}
	if l.top > 0 {
		l.rows = l.rows[:min(uint64(len(l.rows)), uint64(l.top))]
	}
	l.flush()
}

// scoreIf returns score if isKnown is true, and else NaN, by which a row comes last.
func scoreIf(isKnown bool, score float64) float64 {
	if !isKnown {
		return math.NaN()
	}
	return score
}
