package scheme_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/scheme"
)

// gptq lists n weights of GPTQ, whose layers have names of so many bytes.
func gptq(n, length int) (list []stored) {
	for i := range n {
		name := fmt.Sprintf("a%0*d", length-1, i)
		list = append(list, stored{name + ".qweight", layout.I32, []int{16, 16}, nil}, stored{name + ".qzeros", layout.I32, []int{1, 2}, nil}, stored{name + ".scales", layout.F16, []int{1, 16}, nil})
	}
	return list
}

// dynamic is a configuration of n regular expressions.
func dynamic(n int, pattern string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"+:%d%s":{"bits":8}`, i, strings.Repeat(pattern, 1000/len(pattern))))
	}
	return `{"quantization_config":{"quant_method":"gptq","dynamic":{` + strings.Join(list, ",") + `}}}`
}

// allocated returns how many bytes ReadConfig allocates for a configuration.
func allocated(t *testing.T, text []byte) uint64 {
	md, err := jsontext.Parse(text, layout.Unknown, 0, "config.json", defaults)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	scheme.ReadConfig(md)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostilePatterns: a repetition of three bytes is a thousand instructions.
func TestHostilePatterns(t *testing.T) {
	testmode.Sequential(t)
	for _, pattern := range []string{"x{1000}", "(((x{10}){10}){10})", "(a|b|c){1000}", "(?i)[k-s]{1000}", `\\pL{1000}`} {
		if took := allocated(t, []byte(dynamic(64, pattern))); took > 100<<20 {
			t.Errorf("64 times %s: %d MiB", pattern, took>>20)
		}
	}
}

// TestHostileLayers: so many places of regular expressions, times so many bytes of names, would take a day. What a
// configuration may ask for takes time in proportion to the names.
func TestHostileLayers(t *testing.T) {
	testmode.Sequential(t)
	const places, text, expressions = "at more than 512 places at once", "more than 16384 bytes of regular expressions", "more than 64 regular expressions"
	for _, c := range []struct {
		n            int
		pattern, why string
	}{
		{7, ".?", places}, {7, "[^0]?", places}, {7, "é*", places}, {2, "(a|0)*", places}, {7, "[^0]", ""}, {16, "a", ""},
		{17, "a", text}, {65, strings.Repeat("too long to be repeated", 50), expressions}, {1, "x{100}", "more than 8192 instructions"},
		{1, "(?!a)", "is none of RE2's syntax: which layers it names is not known"},
	} {
		config := dynamic(c.n, c.pattern)
		table := find(t, config, gptq(2, 10_000)...)
		for i := range 2 {
			if err := table.Err(i); (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%d times %s, layer %d: %v", c.n, c.pattern, i, err)
			}
		}
	}
	if testing.Short() {
		return
	}
	// As many as the largest models have, sixty layers of 384 experts, and what these are told apart by.
	config := `{"quantization_config":{"quant_method":"gptq","dynamic":{"+:.*\\.(?:18|19)\\..*(?:gate|up)_proj.*":{"bits":8},"-:.*\\.20\\..*":{},"+:.*\\.mlp\\.experts\\.\\d+\\.down_proj":{"bits":8},` +
		`".*self_attn\\.[qkvo]_proj":{"bits":8},"model\\.layers\\.[0-3]\\.":{"bits":8}}}}`
	for i, w := range weights(find(t, config, gptq(60*384*3, 42)...)) {
		if w.Err != nil {
			t.Fatalf("layer %d: %v", i, w.Err)
		}
	}
}

// TestManyKeys: what the configuration says of all weights is not searched for among all of its keys once more for each weight.
func TestManyKeys(t *testing.T) {
	var keys strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&keys, `,"%x":0`, i)
	}
	const groups = `"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{}},"b":{"weights":{}}}` // no two weights share a form
	var weights []stored
	for i := range 10_000 {
		weights = append(weights, stored{fmt.Sprintf("a%d.weight", i), layout.F8_E4M3, []int{4, 4}, nil}, stored{fmt.Sprintf("a%d.weight_scale", i), layout.F32, []int{1}, nil},
			stored{fmt.Sprintf("b%d", i), layout.I64, []int{4, 4}, nil}, stored{fmt.Sprintf("b%d_scale", i), layout.F32, []int{1}, nil})
	}
	begun := time.Now()
	find(t, config(groups+keys.String()))
	reading := time.Since(begun)
	begun = time.Now()
	table := find(t, config(groups+keys.String()), weights...)
	if took := time.Since(begun); table.Len() != 20_000 || table.Err(0) != nil || took > reading+5*time.Second {
		t.Errorf("%d weights took %v, and reading the configuration %v (%v)", table.Len(), took, reading, table.Err(0))
	}
}

// TestUnreadTargets: Python's regular expressions are more than Go's. A single group holds for all layers, whatever it names.
func TestUnreadTargets(t *testing.T) {
	const one = `"a":{"targets":["re:(?!lm_head).*"],"weights":{"num_bits":8}}`
	for groups, want := range map[string]string{one: "", one + `,"b":{"targets":["c"],"weights":{"num_bits":8}}`: `(?!lm_head).*" is none of RE2's syntax`} {
		table := find(t, `{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{`+groups+`}}}`,
			stored{"a.weight", layout.F8_E4M3, []int{4, 4}, nil}, stored{"a.weight_scale", layout.F32, []int{1}, nil})
		if err := table.Err(0); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", groups, err)
		}
	}
}

// TestManyGroups: every group is held against every layer.
func TestManyGroups(t *testing.T) {
	for n, want := range map[int]string{64: "", 65: "65 groups, more than 64"} {
		var groups []string
		for i := range n {
			groups = append(groups, fmt.Sprintf(`"%d":{"targets":["%[1]d"],"weights":{}}`, i))
		}
		table := find(t, `{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{`+strings.Join(groups, ",")+`}}}`,
			stored{"a.weight", layout.F8_E4M3, []int{4, 4}, nil}, stored{"a.weight_scale", layout.F32, []int{1}, nil})
		if err := table.Err(0); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d groups: %v", n, err)
		}
	}
}

// TestManyOverrides: what is said of layers that there are not takes less memory than its text has bytes, four times.
func TestManyOverrides(t *testing.T) {
	testmode.Sequential(t) // and more is allocated there
	for _, member := range []string{`"%x":{}`, `"%x":false`, `"%x":{"bits":0}`, `"%x":{"bits":4}`} {
		text := []byte(`{"quantization":{"group_size":64,"bits":4`)
		for i := range 50_000 {
			text = fmt.Appendf(append(text, ','), member, i)
		}
		if took := allocated(t, append(text, "}}"...)); took > 4*uint64(len(text)) {
			t.Errorf("%s: %.1f times %d bytes", member, float64(took)/float64(len(text)), len(text))
		}
	}
}

// TestManyNames: a configuration keeps the names of so many layers, in groups and overrides together.
func TestManyNames(t *testing.T) {
	testmode.Sequential(t)
	const most = 1 << 17
	names := func(n int, member string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(member, i)
		}
		return strings.Join(list, ",")
	}
	for config, ok := range map[string]bool{
		`"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{},"targets":[` + names(most-3, `"%x"`) + `]}}`:                                                            true,
		`"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{},"targets":[` + names(most+1, `"%x"`) + `]}}`:                                                            false,
		`"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{},"targets":[` + names(most/2, `"%x"`) + `]},"b":{"weights":{},"targets":[` + names(most, `"%x"`) + `]}}`: false,
		`"bits":8,"group_size":32,` + names(most-3, `"%016x":{}`):                                                                                                                       true,
		`"bits":8,"group_size":32,` + names(most+1, `"%016x":{}`):                                                                                                                       false,
	} {
		text := `{"quantization_config":{` + config + `}}`
		table := find(t, text, stored{"a.weight", layout.F8_E4M3, []int{4, 4}, nil}, stored{"a.weight_scale", layout.F32, []int{1}, nil})
		if err := table.Err(0); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "layers, more than 131072") {
			t.Errorf("%.60s: %v", text, err)
		}
		if n := allocated(t, []byte(text)); !ok && n > uint64(len(text))*12 {
			t.Errorf("%.60s: %d bytes allocated for %d", text, n, len(text))
		}
	}
}
