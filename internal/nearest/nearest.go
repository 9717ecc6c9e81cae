// Package nearest finds the names that are similar to one that does not exist.
package nearest

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

// The limits of a search. A hint is not worth more.
const (
	maxNames = 50_000
	maxBytes = 200        // of a name
	maxSteps = 50_000_000 // of comparing names: about a tenth of a second
)

// Names returns up to three of all names that are similar to name: they contain it, or few changes of characters turn
// them into it. The most similar one comes first. Beyond the limits it returns what it has found so far.
func Names(all iter.Seq[string], name string) []string {
	if name == "" || len(name) > maxBytes {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	want, seen, steps := strings.ToLower(name), 0, 0
	changes := max(2, len(want)/4) // the largest distance of a similar name
	for have := range all {
		if seen++; seen > maxNames || steps > maxSteps {
			break
		}
		if len(have) > maxBytes {
			continue
		}
		low := strings.ToLower(have)
		if strings.Contains(low, want) {
			found = append(found, candidate{have, 0})
		} else if len(low) <= len(want)+changes && len(want) <= len(low)+changes {
			steps += len(want) * len(low)
			if d := levenshtein.ComputeDistance(want, low); d <= changes {
				found = append(found, candidate{have, d})
			}
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, c := range found[:min(3, len(found))] {
		names = append(names, c.name)
	}
	return names
}

// Hint returns the question that ends a message about name: "; did you mean "x"?". It is empty if no
// name of all is near.
func Hint(all iter.Seq[string], name string) string {
	var b strings.Builder
	for i, near := range Names(all, name) {
		b.WriteString([]string{"; did you mean ", ", "}[min(i, 1)])
		b.WriteString(strconv.Quote(near))
	}
	if b.Len() > 0 {
		b.WriteByte('?')
	}
	return b.String()
}
