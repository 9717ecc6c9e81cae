package slice

import (
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/modeltest"
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

// Batches are what is wanted, in order, and no larger than they may be; what is between two
// stretches is read only where it is little.
func TestSliceBatches(t *testing.T) {
	const most = 10_000
	for _, test := range []struct {
		shape   []int
		spec    string
		batches int
		read    uint64
	}{
		{[]int{100, 100}, "", 1, 10_000},
		{[]int{300, 100}, "", 3, 30_000},
		{[]int{100, 100}, ":, 0", 1, 9_901}, // all but the last row's end
		{[]int{4, 20_000}, ":, 5", 4, 4},
		{[]int{4, 20_000}, "1", 2, 20_000},
		{[]int{4, 20_000}, "1:3, -30:", 2, 60},
		{[]int{10, reach + 1}, ":, 0", 2, 10 + 8*reach}, // five and five
		{[]int{10, reach + 2}, ":, 0", 10, 10},
		{[]int{4, 5}, "0:0", 0, 0},
	} {
		p, err := New(opened(t, modeltest.CountingInts(t, test.shape)), test.spec)
		if err != nil {
			t.Fatal(err)
		}
		batches, read, wanted, last := 0, uint64(0), uint64(0), uint64(0)
		err = p.batches(most, func(r stretch, list []stretch) error {
			batches++
			read += r.n
			for _, s := range list {
				if s.first < last || s.first < r.first || s.first+s.n > r.first+r.n {
					t.Errorf("%v[%s]: %v in %v after %d", test.shape, test.spec, s, r, last)
				}
				last = s.first + s.n
				wanted += s.n
			}
			if r.n > most {
				t.Errorf("%v[%s]: reads %d", test.shape, test.spec, r.n)
			}
			return nil
		})
		elements, _ := layout.Elements(p.shape())
		if err != nil || batches != test.batches || read != test.read || wanted != elements {
			t.Errorf("%v[%s]: %d batches of %d elements, want %d of %d; %d wanted, want %d (%v)",
				test.shape, test.spec, batches, read, test.batches, test.read, wanted, elements, err)
		}
	}
}
