package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader/survey"
)

// reencodedJSON has the errors of a tensor that convert has re-encoded. The names are those of diff.
type reencodedJSON struct {
	errorsJSON
	Cosine report.Real `json:"cosine"`
}

// newReencodedJSON describes errors e of a type that keeps typeDB of Gaussian values.
func newReencodedJSON(e *survey.Errors, typeDB float64) *reencodedJSON {
	return &reencodedJSON{newErrorsJSON(e, typeDB), report.Real(e.Cosine())}
}

// overallErrors sums the errors of all tensors that were re-encoded, and returns these tensors.
func overallErrors(tensors []convert.Tensor) (all survey.Errors, some []*convert.Tensor) {
	for i := range tensors {
		if t := &tensors[i]; t.Errors != nil && t.Errors.Values > 0 {
			all.Add(*t.Errors)
			some = append(some, t)
		}
	}
	return all, some
}

// reportErrors says on stderr how far the values of re-encoded tensors are from those of the source: over all of
// them together, and of the worst five. It says nothing if no value differs.
func reportErrors(stderr io.Writer, tensors []convert.Tensor) {
	const most = 5
	all, some := overallErrors(tensors)
	if all.DD == 0 {
		return
	}
	note(stderr, "re-encoded %s: %s; the worst:", report.Plural(len(some), "tensor"), errorsText(&all, " over all of their values"))
	slices.SortStableFunc(some, func(a, b *convert.Tensor) int { return cmp.Compare(-b.Errors.DB(), -a.Errors.DB()) }) // NaN comes last
	for _, t := range some[:min(most, len(some))] {
		keeps := ""
		if db := survey.GaussianDB(t.To); !math.IsNaN(db) { // I8 has no such figure: its one scale depends on the largest value
			keeps = fmt.Sprintf(", which keeps %s of Gaussian values", decibels(db))
		}
		note(stderr, "  %s dB as %v%s: %s", decibels(t.Errors.DB()), t.To, keeps, t.Name)
	}
}
