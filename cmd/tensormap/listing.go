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

// sortKey is a value of --sort: score returns what rows are sorted by, the largest first. NaN comes last.
type sortKey[R any] struct {
	name  string
	score func(*R) float64
}

// ranking has the flags --sort and --top of a verb that lists tensors as rows.
type ranking[R any] struct {
	keys []sortKey[R]
	name func(*R) string // of a row's tensor
	by   choice
	top  uint
}

// addTo declares the flags. keys[0] is the key if --top comes alone; by name is another key.
func (r *ranking[R]) addTo(cmd *cobra.Command, name func(*R) string, keys ...sortKey[R]) {
	r.keys, r.name = keys, name
	for _, k := range keys {
		r.by.allowed = append(r.by.allowed, k.name)
	}
	r.by.allowed = append(r.by.allowed, "name")
	r.by.addTo(cmd, "sort", "order of the tensors, else that of the file")
	cmd.Flags().UintVar(&r.top, "top", 0, "only the first `N` tensors, by "+keys[0].name+" without --sort; 0 shows all")
}

// isWanted reports whether --sort or --top was given, so that rows have to be collected before they are written.
func (r *ranking[R]) isWanted() bool { return r.by.value != "" || r.top > 0 }

// apply returns rows in the order that the flags ask for, at most as many as they say. Rows of equal score stay in their order.
func (r *ranking[R]) apply(rows []R) []R {
	key := cmp.Or(r.by.value, r.keys[0].name)
	at := slices.IndexFunc(r.keys, func(k sortKey[R]) bool { return k.name == key })
	slices.SortStableFunc(rows, func(a, b R) int {
		if at < 0 {
			return cmp.Compare(r.name(&a), r.name(&b))
		}
		return cmp.Compare(r.keys[at].score(&b), r.keys[at].score(&a)) // NaN is less than all
	})
	if r.top > 0 {
		rows = rows[:min(uint64(len(rows)), uint64(r.top))]
	}
	return rows
}

// listing writes rows as they come or, with --sort or --top, in that order at the end.
type listing[R any] struct {
	ranking *ranking[R]
	pass    *pass
	json    *report.JSON           // its array of rows has begun; nil for tables
	object  func(*R) any           // a row in JSON
	grid    func([]R) *report.Grid // columns are as wide as its rows need, so that a long list is several tables
	rows    []R
	drawn   int // tables
}

// add adds a row.
func (l *listing[R]) add(row *R) {
	l.rows = append(l.rows, *row)
	if !l.ranking.isWanted() && (l.json != nil || len(l.rows) == tableRows) {
		l.flush()
	}
}

// tableRows is the maximum number of rows in a table.
const tableRows = 4096

// flush writes the rows that have been added.
func (l *listing[R]) flush() {
	if l.json != nil {
		for i := range l.rows {
			l.json.Row(l.object(&l.rows[i]))
		}
	} else {
		for rows := range slices.Chunk(l.rows, tableRows) {
			l.draw(rows)
		}
	}
	clear(l.rows)
	l.rows = l.rows[:0]
}

// draw writes rows as a table.
func (l *listing[R]) draw(rows []R) {
	if l.drawn++; l.drawn > 1 {
		io.WriteString(l.pass.w, "\n")
	}
	l.grid(rows).Write(l.pass.w, terminal.ScreenOf(l.pass.Out))
}

// end writes what has not been written.
func (l *listing[R]) end() {
	if l.ranking.isWanted() {
		l.rows = l.ranking.apply(l.rows)
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
