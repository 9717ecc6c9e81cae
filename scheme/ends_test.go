package scheme

import (
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestMayEnd compares mayEnd with a search through all names: it may say yes too often, and never no too often.
func TestMayEnd(t *testing.T) {
	names := []string{"a.weight", "b.weight", "a.weight_scale", "c", "", ".", "d.", "x.quant_state.bitsandbytes__nf4", "e_scale", "a.weight.absmax"}
	f := &finder{}
	for _, name := range names {
		f.tensors = append(f.tensors, layout.Tensor{Name: []byte(name)})
	}
	no := 0
	for _, name := range append(names, "a.weight_scale_inv", "q.scales", "_blocks") {
		for at := range len(name) + 1 {
			end, ends := name[at:], false
			for _, n := range names {
				ends = ends || strings.HasSuffix(n, end)
			}
			may := f.mayEndWith(end)
			if ends && !may {
				t.Errorf("no name ends with %q", end)
			}
			if !may {
				no++
			}
		}
	}
	if no < 20 {
		t.Errorf("%d ends were told to be missing", no)
	}
}
