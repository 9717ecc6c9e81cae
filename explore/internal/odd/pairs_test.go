package odd

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
)

// quantized returns MiniLM beside what tensormap convert --dtype q4_k_m makes of it. testdata/minilm-q4_k_m.json is what
// tensormap diff --json says of them, with the bits of each tensor in the second.
func quantized(t *testing.T) Comparison {
	t.Helper()
	text, err := os.ReadFile("testdata/minilm-q4_k_m.json")
	if err != nil {
		t.Fatal(err)
	}
	x, _ := minilm(t)
	c := Comparison{Index: x, Asked: "Q4_K_M", Done: true}
	if err := json.Unmarshal(text, &c.Pairs); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestQuantizedMiniLM(t *testing.T) {
	c := quantized(t)
	check(t, InPairs(c), "1 `output.dense`, layers 0, 1, 3, 4: 22.3 to 22.7 dB, the lowest. They are Q4_K, which keeps 22.9 of Gaussian values | the values cost at most 0.6 dB more | 4\n"+
		"1 **Asked for Q4_K, got Q5_0:** 29 matrices, as rows of 384 are no multiple of 256 | 5.50 bits instead of 4.50 | 29\n"+
		"0 **No tensor lost more than its type costs**: the furthest is `output.dense`, layer 5, 0.9 dB below what Q6_K keeps | rule: 3 dB | 0\n")
	for asked, want := range map[string]string{"Q6_K": "got Q8_0:** 3 matrices", "Q5_K_M": "", "IQ4_XS": "", "F16": "", "": ""} {
		c.Asked = asked
		if got := text(InPairs(c)); !strings.Contains(got, want) || strings.Contains(got, "Asked") != (want != "") {
			t.Errorf("asked for %s: %s", asked, got)
		}
	}
	c.Done, c.Pairs = false, c.Pairs[:40]
	if got := text(InPairs(c)); strings.Contains(got, "No tensor") {
		t.Error(got)
	}
	check(t, InPairs(Comparison{Index: c.Index, Done: true}), "")
}

// TestPairRules changes pairs that are alike, one rule after the other.
func TestPairRules(t *testing.T) {
	for _, tt := range []struct {
		title  string
		change func(i int, one *answer.Pair)
		want   string
	}{
		{"nothing", func(int, *answer.Pair) {}, "0 **Nothing differs:** all 55 tensors are stored alike |  | 0\n"},
		{"damaged", func(i int, one *answer.Pair) {
			if i == 3 {
				one.Error = "b.apr: checksum"
			}
		}, "3 `mlp.experts.{0..3}.up_proj`, layer 0, expert 0: damaged | checksum | 1\n"},
		{"missing", func(i int, one *answer.Pair) {
			switch {
			case i < 4:
				one.OnlyIn = "a"
			case i == 4:
				one.OtherShape = true
			case i == 54:
				one.OnlyIn, one.Number, one.Name = "b", 55, "new.`weight"
			}
		}, "2 **Only in A:** `model.layers.0.self_attn.q_proj.weight`, `model.layers.0.self_attn.q_proj.bias`, `model.layers.0.input_layernorm.weight` and 1 more | 4 tensors | 4\n" +
			"2 **Only in B:** `new.'weight` | 1 tensor | 1\n" +
			"2 **Another shape in B:** `model.layers.0.mlp.experts.0.down_proj.weight` | 1 tensor | 1\n"},
		{"other names", func(i int, one *answer.Pair) { one.OnlyIn = "ab"[i%2 : i%2+1] },
			"2 **No tensor has the same name in both** | llama.cpp renames tensors: compare with what convert wrote | 0\n"},
		{"no measure", func(i int, one *answer.Pair) {
			switch {
			case i == 0:
				one.Same, one.Lost = false, 3
			case i == 4:
				one.Same, one.DB = false, answer.Real(math.Inf(-1))
			default:
				one.TypeB, one.DB, one.TypeDB = "Q8_0", 45.2, 45.5
			}
		}, "2 **NaN or infinite in one alone:** `model.layers.0.self_attn.q_proj.weight` | 1 tensor | 1\n" +
			"2 **All zero in A:** `model.layers.0.mlp.experts.0.down_proj.weight` | 1 tensor | 1\n"},
		{"losses", func(i int, one *answer.Pair) {
			one.Same, one.TypeB, one.DB, one.TypeDB = false, "Q8_0", 45.2, 45.5
			switch one.Name {
			case "model.layers.1.self_attn.q_proj.weight", "model.layers.2.self_attn.q_proj.weight":
				one.DB = 39
			case "model.layers.3.self_attn.q_proj.weight":
				one.DB = 42
			}
		}, "2 `self_attn.q_proj`, layers 1, 2: 39.0 dB, up to 6.5 below what Q8_0 keeps of Gaussian values | rule: 3 dB, strong from 6 | 2\n" +
			"1 `self_attn.q_proj`, layer 3: 42.0 dB, up to 3.5 below what Q8_0 keeps of Gaussian values | rule: 3 dB, strong from 6 | 1\n"},
		{"a fine-tune", func(i int, one *answer.Pair) {
			one.Same, one.DB, one.RelativeRMS = false, 40, 0.01
			if one.Name == "model.layers.4.self_attn.q_proj.weight" {
				one.DB, one.RelativeRMS = 20, 0.1
			}
		}, "1 `self_attn.q_proj`, layer 4: changed most, by up to 10.0 % | median of what differs: 1.00 % | 1\n"},
		{"quantized in part", func(i int, one *answer.Pair) {
			if one.Same, one.DB, one.RelativeRMS = false, 40, 0.01; i > 0 {
				one.TypeB, one.DB, one.TypeDB = "Q8_0", 45.4, 45.4
			}
		}, "1 `self_attn.q_proj`, layer 0: changed most, by up to 1.00 % | median of what differs: 1.00 % | 1\n" +
			"0 **No quantized tensor lost more than its type costs** | rule: 3 dB | 0\n"},
	} {
		t.Run(tt.title, func(t *testing.T) {
			x, _ := moe()
			c := Comparison{Index: x, Done: true, Pairs: alike(x)}
			for i := range c.Pairs {
				tt.change(i, &c.Pairs[i])
			}
			check(t, InPairs(c), tt.want)
		})
	}
}

// alike returns pairs of tensors that are the same.
func alike(x *grid.Index) (pairs []answer.Pair) {
	for i, row := range x.Rows {
		pairs = append(pairs, answer.Pair{Number: i, Name: row.Name, Same: true, TypeA: row.Type, TypeB: row.Type, Elements: row.Elements,
			DB: answer.Real(math.Inf(1)), TypeDB: answer.Real(math.NaN())})
	}
	return pairs
}
