// Package nearest finds the names that may be meant by one that does not exist.
package nearest

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// The limits of a search. A hint is not worth more.
const (
	mostNames = 50_000
	mostBytes = 200        // of a name
	mostSteps = 50_000_000 // of comparing names: about a tenth of a second
)

// Names returns up to three names of all that may be meant by name: those that contain it, and those
// that few changes turn into it. The nearest comes first.
func Names(all iter.Seq[string], name string) []string {
	if name == "" || len(name) > mostBytes {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	seen, steps := 0, 0
	for have := range all {
		if seen++; seen > mostNames || steps > mostSteps {
			break
		}
		if len(have) > mostBytes {
			continue
		}
		d, ok, n := distance(name, have)
		steps += n
		if ok {
			found = append(found, candidate{have, d})
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

// distance returns how many changes have is away from want, and false if they are not alike. A name
// that contains all of want is near, however much else it has. steps counts the work.
func distance(want, have string) (d int, ok bool, steps int) {
	w, h := strings.ToLower(want), strings.ToLower(have)
	if strings.Contains(h, w) {
		return 0, true, 0
	}
	most := max(2, len(w)/4)
	if len(h) > len(w)+most || len(w) > len(h)+most {
		return 0, false, 0
	}
	d = levenshtein(w, h)
	return d, d <= most, len(w) * len(h)
}

// levenshtein counts the fewest bytes to insert, delete or replace that turn a into b.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1) // distances of a's beginning to every beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
