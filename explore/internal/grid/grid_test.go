package grid

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
)

// minilm returns the rows of MiniLM: see package odd.
func minilm(t testing.TB) []answer.TensorRow {
	t.Helper()
	text, err := os.ReadFile("../odd/testdata/minilm.json")
	if err != nil {
		t.Fatal(err)
	}
	var stats struct {
		Tensors []struct {
			Name, Dtype string
			Shape       []int
			Elements    uint64
		}
	}
	if err := json.Unmarshal(text, &stats); err != nil {
		t.Fatal(err)
	}
	var rows []answer.TensorRow
	for _, s := range stats.Tensors {
		rows = append(rows, answer.TensorRow{Name: s.Name, Type: s.Dtype, Shape: s.Shape, Elements: s.Elements, Bytes: 4 * s.Elements})
	}
	return rows
}

// named returns rows of names; those of vectors end in norm.weight or bias.
func named(names ...string) []answer.TensorRow {
	var rows []answer.TensorRow
	for _, name := range names {
		shape := []int{8, 8}
		if strings.HasSuffix(name, "norm.weight") || strings.HasSuffix(name, "bias") {
			shape = []int{8}
		}
		rows = append(rows, answer.TensorRow{Name: name, Type: "F32", Shape: shape, Elements: 64, Bytes: 256})
	}
	return rows
}

// drawn writes a grid as text: a line a row, behind its heading.
func drawn(x *Index) string {
	var b strings.Builder
	for _, g := range x.Grid.Groups {
		fmt.Fprintf(&b, "%s\n", g.Name)
		for _, r := range g.Rows {
			n := 0
			for _, c := range r.Cells {
				n += len(c)
			}
			fmt.Fprintf(&b, "  %s %d\n", r.Role, n)
		}
	}
	return b.String()
}

func TestMiniLM(t *testing.T) {
	x := New(minilm(t))
	const want = `Attention
  attention.self.query 6
  attention.self.key 6
  attention.self.value 6
  attention.output.dense 6
Feed-forward
  intermediate.dense 6
  output.dense 6
Norms and biases
  attention.self.query.bias 6
  attention.self.key.bias 6
  attention.self.value.bias 6
  attention.output.dense.bias 6
  attention.output.LayerNorm.weight 6
  attention.output.LayerNorm.bias 6
  intermediate.dense.bias 6
  output.dense.bias 6
  output.LayerNorm.weight 6
  output.LayerNorm.bias 6
`
	if got := drawn(x); got != want {
		t.Errorf("the grid is\n%s", got)
	}
	if x.Names != "Hugging Face, BERT" || x.Hidden != 384 || len(x.Outside) != 8 {
		t.Error(x.Names, x.Hidden, x.Outside)
	}
	var parts []string
	for _, p := range x.Parts {
		parts = append(parts, fmt.Sprint(p.Part, " ", p.Tensors, " ", p.Elements))
	}
	if got := strings.Join(parts, ", "); got != "embeddings 6 11919104, feed-forward 36 7094016, attention 60 3552768, pooler 2 147840" {
		t.Error(got)
	}
	hidden := 0
	for i := range x.Rows {
		if x.HiddenAxis(i) >= 0 {
			hidden++
		}
	}
	if hidden != 77 {
		t.Errorf("%d tensors have a hidden axis", hidden)
	}
	for i, row := range x.Rows {
		switch row.Name {
		case "encoder.layer.3.output.dense.weight":
			if row.Role != "output.dense" || row.Layer != 3 || row.Expert != -1 || row.Part != FeedForward || x.HiddenAxis(i) != 0 {
				t.Error(row, x.HiddenAxis(i))
			}
		case "encoder.layer.3.intermediate.dense.weight":
			if x.HiddenAxis(i) != 1 {
				t.Error(row, x.HiddenAxis(i))
			}
		case "pooler.dense.weight":
			if row.Role != "" || row.Layer != -1 || row.Part != Pooler {
				t.Error(row)
			}
		}
	}
}

// sorted returns its argument in order.
func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// expand replaces each N in names by the numbers below layers, and each E by those below experts.
func expand(layers, experts int, names ...string) (all []string) {
	for _, name := range names {
		if !strings.Contains(name, "N") {
			all = append(all, name)
			continue
		}
		for n := range layers {
			one := strings.Replace(name, "N", fmt.Sprint(n), 1)
			if !strings.Contains(one, "E") {
				all = append(all, one)
				continue
			}
			for e := range experts {
				all = append(all, strings.Replace(one, "E", fmt.Sprint(e), 1))
			}
		}
	}
	return all
}

func TestConventions(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string // the convention, layers, tensors outside, rows
	}{
		{expand(3, 0, "model.embed_tokens.weight", "model.layers.N.self_attn.q_proj.weight", "model.layers.N.mlp.gate_proj.weight", "model.layers.N.mlp.down_proj.weight",
			"model.layers.N.input_layernorm.weight", "model.norm.weight", "lm_head.weight"),
			"Hugging Face, llama; 3 layers; 3 outside; self_attn.q_proj, mlp.gate_proj, mlp.down_proj, input_layernorm.weight"},
		{expand(2, 4, "model.layers.N.self_attn.q_proj.weight", "model.layers.N.mlp.experts.E.gate_proj.weight", "model.layers.N.mlp.gate.weight", "model.norm.weight"),
			"Hugging Face, llama; 2 layers; 1 outside; self_attn.q_proj, mlp.gate, mlp.experts.{0..3}.gate_proj"},
		{expand(2, 0, "token_embd.weight", "blk.N.attn_q.weight", "blk.N.attn_output.weight", "blk.N.ffn_norm.weight", "blk.N.ffn_down.weight", "output_norm.weight"),
			"ggml, llama; 2 layers; 2 outside; attn_q, attn_output, ffn_down, ffn_norm.weight"},
		{expand(2, 3, "blk.N.ffn_gate.E.weight", "blk.N.ffn_gate_inp.weight"),
			"ggml; 2 layers; 0 outside; ffn_gate_inp, ffn_gate.{0..2}"},
		{expand(2, 0, "encoder.block.N.layer.0.SelfAttention.q.weight", "decoder.block.N.layer.0.SelfAttention.q.weight", "shared.weight"),
			"Hugging Face, T5; 2 layers; 1 outside; encoder.layer.0.SelfAttention.q, decoder.layer.0.SelfAttention.q"},
		{expand(2, 0, "bert/encoder/layer_N/attention/self/query/kernel", "bert/encoder/layer_N/attention/output/dense/kernel"),
			"Hugging Face, BERT; 2 layers; 0 outside; attention/self/query/kernel, attention/output/dense/kernel"},
		{expand(3, 0, "h.N.attn.c_attn.weight", "h.N.mlp.c_fc.weight", "wte.weight"),
			"Hugging Face, GPT-2; 3 layers; 1 outside; attn.c_attn, mlp.c_fc"},
		{expand(2, 0, "transformer_blocks.N.attn.to_q.weight", "transformer_blocks.N.ff.net.0.proj.weight", "single_transformer_blocks.N.attn.to_q.weight", "x_embedder.weight"),
			"; 2 layers; 1 outside; transformer_blocks.attn.to_q, transformer_blocks.ff.net.0.proj, single_transformer_blocks.attn.to_q"},
		{expand(2, 0, "token_embd.weight", "blk.N.attn_q.weight", "blk.N.attn_output_norm.weight", "blk.N.layer_output_norm.weight", "blk.N.ffn_up.weight"),
			"ggml, BERT; 2 layers; 1 outside; attn_q, ffn_up, attn_output_norm.weight, layer_output_norm.weight"},
		{expand(2, 0, "layerN.0.conv1.weight", "layerN.1.conv1.weight", "conv1.weight"), "; 2 layers; 1 outside; 0.conv1, 1.conv1"},
		{expand(4, 0, "net.N.weight", "net.N.bias"), "; 4 layers; 0 outside; weight, bias"},
		{[]string{"a.0.weight", "b.weight"}, "; 0 layers; 2 outside; "},
		{[]string{"w", "layers.5.weight"}, "; 1 layers; 1 outside; weight"},
		{[]string{"layers.1000000000000000000.w", "layers.1.w", "layers.01.w", "layers.1", "layers..1.w"}, "; 1 layers; 4 outside; w"},
	} {
		x := New(named(tt.names...))
		var roles []string
		for _, g := range x.Grid.Groups {
			for _, r := range g.Rows {
				roles = append(roles, r.Role)
			}
		}
		if got := fmt.Sprintf("%s; %d layers; %d outside; %s", x.Names, len(x.Grid.Layers), len(x.Outside), strings.Join(roles, ", ")); got != tt.want {
			t.Errorf("%s\ninstead of\n%s", got, tt.want)
		}
		if (len(x.Grid.Layers) < 2) != (x.Grid.Why != "") {
			t.Error(x.Grid.Layers, x.Grid.Why)
		}
	}
}

// TestHostileNames makes indexes of names that are meant to take long or much.
func TestHostileNames(t *testing.T) {
	long := strings.Repeat("a.", 32<<10)
	many := func(n int, name func(i int) string) (names []string) {
		for i := range n {
			names = append(names, name(i))
		}
		return names
	}
	for title, names := range map[string][]string{
		"none":            nil,
		"long":            {long, long + "layers.1." + long, strings.Repeat("layers.1.", 7000), strings.Repeat("9", 64<<10), strings.Repeat("/", 64<<10)},
		"empty":           {"", ".", "..", "layers.", "layers.0", "layers.0.", ".0.", "0", "0.x", "h.0.x"},
		"gaps":            many(2000, func(i int) string { return fmt.Sprintf("layers.%d.w", i*499) }),
		"own roles":       many(20000, func(i int) string { return fmt.Sprintf("layers.%d.w%d", i, i) }),
		"own stacks":      many(20000, func(i int) string { return fmt.Sprintf("x%d.layers.%d.w", i, i) }),
		"experts":         many(20000, func(i int) string { return fmt.Sprintf("layers.0.experts.%d.w", i*49) }),
		"the same number": many(20000, func(i int) string { return fmt.Sprintf("layers.%0*d.w", i%6+1, 0) }),
		"not UTF-8":       {"layers.0.\xff", "layers.1.\xff", "\xff\xfe.layers.1.w"},
	} {
		began := time.Now()
		x := New(named(names...))
		cells, placed := 0, 0
		for _, g := range x.Grid.Groups {
			for _, r := range g.Rows {
				cells += len(r.Cells)
				for _, c := range r.Cells {
					placed += len(c)
				}
			}
		}
		if cells > cellsPerTensor*len(names)+moreCells || placed+len(x.Outside) != len(names) {
			t.Errorf("%s: %d cells, %d placed and %d outside of %d", title, cells, placed, len(x.Outside), len(names))
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %v", title, took)
		}
		for _, i := range x.Outside {
			if x.Rows[i].Role != "" || x.Rows[i].Layer != -1 {
				t.Errorf("%s: %+v is outside", title, x.Rows[i])
			}
		}
		if !slices.IsSorted(x.Grid.Layers) {
			t.Errorf("%s: layers are not ascending", title)
		}
	}
}
