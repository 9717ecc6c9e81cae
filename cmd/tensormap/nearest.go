package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/loader"
)

// What the search for similar names may cost; a hint is not worth more.
const (
	nearestNames = 50_000
	nearestBytes = 200        // of a name
	nearestSteps = 50_000_000 // of comparing names: about a tenth of a second
)

// nearest are up to three tensors that may be meant by name: those that hold it, and those
// that few changes turn into it.
func nearest(m *loader.Model, name string) []string {
	if name == "" || len(name) > nearestBytes {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	seen, steps := 0, 0
	for t := range m.Tensors() {
		if seen++; seen > nearestNames || steps > nearestSteps {
			break
		}
		if len(t.Name()) > nearestBytes {
			continue
		}
		d, ok, n := distance(name, t.Name())
		steps += n
		if ok {
			found = append(found, candidate{t.Name(), d})
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

// distance is how far have is from want; ok is false where they are not alike. A name
// that holds all of what was typed is near, however much is missing. It takes so many
// steps to find out.
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

// levenshtein is the least number of bytes to insert, delete or replace that turns a into b.
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
