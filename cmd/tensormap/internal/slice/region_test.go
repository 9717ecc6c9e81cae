package slice

import (
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// opened is tensor "x" of a file.
func opened(t *testing.T, path string) loader.Tensor {
	t.Helper()
	m, err := loader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	x, err := m.Tensor("x")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestSliceErrors(t *testing.T) {
	x := opened(t, modeltest.CountingInts(t, []int{3, 4}))
	for spec, says := range map[string]string{
		"3":          "dimension 0 of 3 elements: no index 3",
		"0, -5":      "dimension 1 of 4 elements: no index -5",
		"0, 0, 0":    "3 items for a tensor of 2 dimensions",
		"..., ...":   `more than one "..."`,
		"0, ..., ::": `dimension 1 of 4 elements: "::" has a step`,
		"a":          `dimension 0 of 3 elements: "a" is neither a number nor start:stop`,
		"1.5":        `"1.5" is neither`,
		"0, x:2":     `dimension 1 of 4 elements: "x" is neither`,
		"1:y":        `"y" is neither`,
		",":          `"" is neither`,
		"0,,1":       "3 items for a tensor of 2 dimensions",
		"0,,":        `dimension 1 of 4 elements: "" is neither`,
		"None":       `"None" is neither`,
	} {
		_, err := New(x, spec)
		if err == nil || !strings.Contains(err.Error(), "x["+spec+"]: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("[%s]: %v, want %q", spec, err, says)
		}
	}
}

// TestRegions: regions follow one another, hold what is wanted, and are no larger than they may be.
func TestRegions(t *testing.T) {
	for _, test := range []struct {
		shape   []int
		spec    string
		regions int
	}{
		{[]int{100, 100}, "", 1},
		{[]int{3, dumpStep}, "", 3},
		{[]int{3, dumpStep + 1}, "1:", 4},
		{[]int{5, 2, dumpStep / 4}, "", 3},
		{[]int{5, 2, dumpStep / 4}, "..., 0", 1},
		{[]int{2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 3}, "..., :2", 4},
		{[]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "", 1},
		{[]int{2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 3}, "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0", 1},
		{[]int{1 << 30, 2, 1 << 20, 3, 1, 2, 3, 4, 5, 6, 0}, "", 0},
		{[]int{4, 5}, "0:0", 0},
	} {
		r, err := New(opened(t, modeltest.CountingInts(t, test.shape)), test.spec)
		if err != nil {
			t.Fatal(err)
		}
		regions, elements, last := 0, uint64(0), float32(-1)
		err = r.eachValues(func(values []float32) error {
			regions++
			elements += uint64(len(values))
			if values[0] <= last || len(values) > dumpStep {
				t.Errorf("%v[%s]: %d values from %v on after %v", test.shape, test.spec, len(values), values[0], last)
			}
			last = values[len(values)-1]
			return nil
		})
		if want, _ := layout.Elements(r.shape()); err != nil || regions != test.regions || elements != want {
			t.Errorf("%v[%s]: %d regions of %d elements, want %d of %d (%v)", test.shape, test.spec, regions, elements, test.regions, want, err)
		}
	}
}
