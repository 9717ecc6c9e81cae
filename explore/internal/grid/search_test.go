package grid

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/explore/internal/answer"
)

// found returns the names that a search finds, with what it matches between brackets.
func found(x *Index, search string) string {
	var names []string
	is, _ := x.search(context.Background(), x.terms(search))
	for i, row := range x.Rows {
		if !is[i] {
			continue
		}
		name := row.Name
		offsets := matched(name, x.terms(search))
		for i := len(offsets) - 2; i >= 0; i -= 2 {
			name = name[:offsets[i]] + "[" + name[offsets[i]:offsets[i+1]] + "]" + name[offsets[i+1]:]
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestSearch(t *testing.T) {
	llama := New(named(expand(32, 0, "model.layers.N.self_attn.q_proj.weight", "model.layers.N.mlp.down_proj.weight", "model.embed_tokens.weight", "lm_head.weight")...))
	moe := New(named(expand(13, 20, "model.layers.N.mlp.experts.E.down_proj.weight", "model.layers.N.mlp.experts.E.up_proj.weight", "model.layers.N.mlp.gate.weight")...))
	ggml := New(named(expand(32, 0, "blk.N.attn_q.weight", "blk.N.ffn_down.weight", "token_embd.weight")...))
	bert := New(minilm(t))
	for _, tt := range []struct {
		in     *Index
		search string
		want   string
	}{
		{llama, "layer 3 query", "model.[layers.3].self_attn.q_proj.weight"},
		{llama, "layer 3 down", "model.[layers.3].mlp.[down]_proj.weight"},
		{llama, "LAYER 3  Q_proj", "model.[layers.3].self_attn.[q_proj].weight"},
		{llama, "layers.3.mlp", "model.[layers.3.mlp].down_proj.weight"},
		{llama, "blk 3 mlp", "model.[layers.3].[mlp].down_proj.weight"},
		{llama, "3 down", "model.layers.[3].mlp.[down]_proj.weight"},
		{llama, "embed", "model.[embed]_tokens.weight"},
		{llama, "emb", "model.[embed]_tokens.weight"},
		{llama, "layer 32 down", ""},
		{llama, "layer 3 nothing", ""},
		{llama, "lm_head", "[lm_head].weight"},
		{llama, "head_lm", ""},
		{moe, "layer 12 expert 7 down", "model.[layers.12].mlp.[experts.7].[down]_proj.weight"},
		{moe, "expert 7 layer 1 up", "model.[layers.1].mlp.[experts.7].[up]_proj.weight"},
		{moe, "layer 2 router", "model.[layers.2].mlp.gate.weight"},
		{ggml, "layer 3 query", "[blk.3].attn_q.weight"},
		{ggml, "blk.3 ffn", "[blk.3].[ffn]_down.weight"},
		{bert, "layer 3 query", "encoder.[layer.3].attention.self.[query].weight encoder.[layer.3].attention.self.[query].bias"},
		{bert, "encoder.layer.0.output.dense.weight", "[encoder.layer.0.output.dense.weight]"},
		{bert, "layer 0 down weight", "encoder.[layer.0].output.dense.[weight]"},
	} {
		got := strings.Fields(found(tt.in, tt.search))
		want := strings.Fields(tt.want)
		if fmt.Sprint(sorted(got)) != fmt.Sprint(sorted(want)) {
			t.Errorf("%q finds %q instead of %q", tt.search, got, want)
		}
	}
	for _, x := range []*Index{llama, moe, ggml, bert} {
		if _, n := x.search(context.Background(), x.terms(" ")); n != len(x.Rows) {
			t.Errorf("no words find %d of %d", n, len(x.Rows))
		}
		t.Log(x.Example, found(x, x.Example))
		if _, n := x.search(context.Background(), x.terms(x.Example)); x.Example == "" || n == 0 || n > 4 {
			t.Errorf("%q finds %d", x.Example, n)
		}
	}
}

// TestSaved: a page without Go has the words that a search takes names apart into, and the order of names.
func TestSaved(t *testing.T) {
	x := New(named("a.layers.10.mlp.experts.007.W3proj.weight", "a.layers.9.mlp.experts.007.W3proj.weight", "tower.blk.02.blocks.4.x"))
	for i, want := range []string{
		"| a layers 10 mlp experts 7 w 3 proj weight | feed forward | | layer 10 | expert 7 ",
		"| a layers 9 mlp experts 7 w 3 proj weight | feed forward | | layer 9 | expert 7 ",
		"| tower blk 2 blocks 4 x | others | | layer 2 | layer 4 ",
	} {
		damage := []*answer.TensorStat{nil, {Kind: "damaged"}}
		if s := x.Saved(i, damage); s.Words != want || s.Rank != []int{1, 0, 2}[i] || (s.State > 0) != (i == 1) {
			t.Errorf("%+v, want %q", s, want)
		}
	}
}

// TestManyMatches: a name of many words has few places that are marked, and a search of many words goes through it once.
func TestManyMatches(t *testing.T) {
	name := strings.Repeat("a.b.", 5000)
	x := New(named(name))
	all := x.terms(strings.Repeat("a b ", maxTerms/2))
	if got := matched(name, all); len(got) == 0 || len(got) > 2*maxMatched {
		t.Errorf("%d offsets", len(got))
	}
	for search, want := range map[string]int{"a b": 1, "b.a a.b": 1, "a c": 0, "a.a": 0} {
		if _, n := x.search(context.Background(), x.terms(search)); n != want {
			t.Errorf("%q finds %d", search, n)
		}
	}
}
