package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
)

// TestListing: a long table is several, and no row is left over or kept.
func TestListing(t *testing.T) {
	var b strings.Builder
	listed := 0
	list := listing[int]{surveyOptions: surveyOptions{Streams: terminal.Streams{Out: &b}, w: bufio.NewWriter(&b)}, grid: func(rows []int) *report.Grid {
		listed += len(rows)
		return &report.Grid{Heading: []string{"page"}, Rows: func(func([]string) bool) {}}
	}}
	for i := range 2*tableRows + 1 {
		list.add(&i)
	}
	list.writeRest()
	list.w.Flush()
	if listed != 2*tableRows+1 || b.String() != "PAGE\n\nPAGE\n\nPAGE\n" || len(list.rows) != 0 {
		t.Errorf("%d rows in %q", listed, b.String())
	}
}
