package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/spf13/cobra"
)

// sortKey is a value of --sort: score returns what rows are sorted by, the largest first. NaN comes last.
type sortKey[R any] struct {
	name  string
	score func(*R) float64
}

// ranking has the flags --sort and --top of a verb that lists tensors as rows.
type ranking[R any] struct {
	keys []sortKey[R]
	by   choice
	top  uint
}

// addTo declares the flags. keys[0] is the key if --top comes alone; by name is another key.
func (r *ranking[R]) addTo(cmd *cobra.Command, keys ...sortKey[R]) {
	r.keys = keys
	for _, k := range keys {
		r.by.allowed = append(r.by.allowed, k.name)
	}
	r.by.allowed = append(r.by.allowed, "name")
	r.by.addTo(cmd, "sort", "order of the tensors, else that of the file")
	cmd.Flags().UintVar(&r.top, "top", 0, "only the first `N` tensors, by "+keys[0].name+" without --sort; 0 shows all")
}

// isWanted reports whether --sort or --top was given, so that rows have to be collected before they are written.
func (r *ranking[R]) isWanted() bool { return r.by.value != "" || r.top > 0 }

// apply returns rows in the order that the flags ask for, at most as many as they say. Rows of equal score stay in their
// order. name returns that of a row's tensor.
func (r *ranking[R]) apply(rows []R, name func(*R) string) []R {
	key := cmp.Or(r.by.value, r.keys[0].name)
	at := slices.IndexFunc(r.keys, func(k sortKey[R]) bool { return k.name == key })
	slices.SortStableFunc(rows, func(a, b R) int {
		if at < 0 {
			return cmp.Compare(name(&a), name(&b))
		}
		return cmp.Compare(r.keys[at].score(&b), r.keys[at].score(&a)) // NaN is less than all
	})
	if r.top > 0 {
		rows = rows[:min(uint64(len(rows)), uint64(r.top))]
	}
	return rows
}

// scoreIf returns score if isKnown is true, and else NaN, by which a row comes last.
func scoreIf(isKnown bool, score float64) float64 {
	if !isKnown {
		return math.NaN()
	}
	return score
}
