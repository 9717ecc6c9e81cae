package loader

import "testing"

// TestSplitLayer: numbers that no layer has, such as steps of training, may stand before that of the layer.
func TestSplitLayer(t *testing.T) {
	for name, want := range map[string]struct {
		before string
		number int
		after  string
		ok     bool
	}{
		"model.layers.3.mlp.up.weight": {"model.layers", 3, "mlp.up.weight", true},
		"step.1000000.layers.3.w":      {"step.1000000.layers", 3, "w", true},
		"step/65536/3/w":               {"step/65536", 3, "w", true},
		"a.99999999999999999999.65535": {"a.99999999999999999999", 0, "", false},
		".0.x":                         {"", 0, "x", true},
		"3.x":                          {"3", 0, "", false},
	} {
		if before, number, after, ok := splitLayer(name); before != want.before || number != want.number || after != want.after || ok != want.ok {
			t.Errorf("%s: %q, %d, %q, %v", name, before, number, after, ok)
		}
	}
}
