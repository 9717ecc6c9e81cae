package grid

import (
	"strings"
	"testing"
)

// FuzzNames makes an index of names, a line each, and lists what a search finds.
func FuzzNames(f *testing.F) {
	f.Add("layers.0.mlp.experts.1.up.weight\nlayers.1.mlp.experts.0.up.weight\nw", "layer 1 expert 0")
	f.Add("blk.0.ffn_gate.0.w\nblk.00.ffn_gate.0.w\nh.0.x\nlayer_3/a\n.\n\n0.0.0", "*[a-z]?{a,b}")
	f.Add("a.layers.0.{x}\na.layers.1.{x}\nb.layers.0.{0..1}\nlayers.0.{", "{")
	f.Fuzz(func(t *testing.T, names, search string) {
		if len(names) > 4096 || len(search) > 256 {
			return
		}
		x := New(named(strings.Split(names, "\n")...))
		cells := 0
		for _, g := range x.Grid.Groups {
			for _, r := range g.Rows {
				for i, c := range r.Cells {
					for _, n := range c {
						if row := x.Rows[n]; row.Role != r.Role || row.Layer != x.Grid.Layers[i] {
							t.Fatalf("%+v in layer %d of %q", row, x.Grid.Layers[i], r.Role)
						}
					}
					cells += len(c)
				}
			}
		}
		if cells+len(x.Outside) != len(x.Rows) {
			t.Fatalf("%d cells and %d outside of %d", cells, len(x.Outside), len(x.Rows))
		}
		for _, group := range []string{"role", "layer", "none"} {
			q := Query{Search: search, Group: group, Count: 1 << 20}
			for range 3 { // unfolds a level each time
				a := listOf(x, q, nil)
				if a.Rows != len(a.Window) {
					t.Fatalf("%d rows of %d", len(a.Window), a.Rows)
				}
				tensors := 0
				for _, r := range a.Window {
					if r.Depth == 0 {
						tensors += r.Tensors
					}
					if r.ID != "" {
						q.Open = append(q.Open, r.ID)
					}
					for i := 0; i < len(r.Matched); i += 2 {
						if from, to := r.Matched[i], r.Matched[i+1]; from < 0 || from >= to || to > len(r.Name) {
							t.Fatalf("%d to %d of %q", from, to, r.Name)
						}
					}
				}
				if tensors != a.Matches {
					t.Fatalf("groups have %d of %d", tensors, a.Matches)
				}
			}
		}
	})
}
