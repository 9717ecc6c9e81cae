package grid

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/explore/internal/answer"
)

// listOf returns the answer to a query that nothing ends.
func listOf(x *Index, q Query, stats []*answer.TensorStat) answer.ListAnswer {
	a, err := x.List(context.Background(), q, stats)
	if err != nil {
		panic(err)
	}
	return a
}

// shown writes the answer to a query as text: a row a line, indented by its depth.
func shown(x *Index, q Query, stats []*answer.TensorStat) string {
	if q.Count == 0 {
		q.Count = 1000
	}
	a := listOf(x, q, stats)
	var b strings.Builder
	fmt.Fprintf(&b, "%d found, %d rows %s\n", a.Matches, a.Rows, a.Problem)
	for _, r := range a.Window {
		mark := map[bool]string{true: "v ", false: "> "}[r.IsOpen]
		if r.Tensor != nil {
			mark = ""
		}
		fmt.Fprintf(&b, "%s%s%s", strings.Repeat("  ", r.Depth), mark, r.Name)
		if r.Tensor == nil {
			fmt.Fprintf(&b, " %d %s %v %d", r.Tensors, r.Types, r.Shape, r.Bytes)
		}
		if stats != nil {
			fmt.Fprintf(&b, " %.3g %.3g %.3g", r.Stds[0], r.Stds[1], r.MaxSigma)
		}
		fmt.Fprintf(&b, " %s\n", r.Note)
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

// opened returns the identities of the groups of a name in the list of q.
func opened(t *testing.T, x *Index, q Query, names ...string) Query {
	t.Helper()
	for _, name := range names {
		q.Count = 1000
		rows := listOf(x, q, nil).Window
		i := slices.IndexFunc(rows, func(r answer.ListRow) bool { return r.Tensor == nil && r.Name == name })
		if i < 0 {
			t.Fatalf("no group is called %s in\n%s", name, shown(x, q, nil))
		}
		q.Open = append(q.Open, rows[i].ID)
	}
	return q
}

// check compares what is shown.
func check(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\ninstead of\n%s", got, want)
	}
}

// moe returns an index of 2,115 tensors, and figures of them.
func moe() (*Index, []*answer.TensorStat) {
	rows := named(expand(32, 20, "lm_head.weight", "model.embed_tokens.weight", "model.layers.N.input_layernorm.weight", "model.layers.N.mlp.experts.E.down_proj.weight",
		"model.layers.N.mlp.experts.E.gate_proj.weight", "model.layers.N.mlp.experts.E.up_proj.weight", "model.layers.N.post_attention_layernorm.weight",
		"model.layers.N.self_attn.k_proj.weight", "model.layers.N.self_attn.o_proj.weight", "model.layers.N.self_attn.q_proj.weight",
		"model.layers.N.self_attn.v_proj.weight", "model.norm.weight")...)
	for i := range rows {
		if len(rows[i].Shape) > 1 {
			rows[i].Type = "BF16"
		}
	}
	x := New(rows)
	stats := make([]*answer.TensorStat, len(rows))
	for i, r := range x.Rows {
		s := &answer.TensorStat{Number: i, Finite: 64, Std: 0.02, MaxSigma: 4, Min: -1, Max: 1}
		switch {
		case r.Name == "model.layers.9.mlp.experts.3.up_proj.weight":
			s = &answer.TensorStat{Number: i, Error: "checksum", Kind: "damaged", Std: answer.Real(math.NaN()), MaxSigma: answer.Real(math.NaN())}
		case r.Name == "model.layers.23.self_attn.q_proj.weight":
			s.NaN = 12
		case strings.HasPrefix(r.Name, "model.layers.5.mlp.experts.11."):
			s.Zeros, s.Std, s.MaxSigma = 64, 0, answer.Real(math.NaN())
		case r.Name == "model.layers.3.mlp.experts.7.down_proj.weight":
			s.Odd, s.MaxSigma = 2, 132
		case r.Role == "self_attn.o_proj" && (r.Layer == 1 || r.Layer == 2):
			s.Odd, s.MaxSigma, s.Std = 1, 31, 0.03
		}
		stats[i] = s
	}
	return x, stats
}

func TestListByRole(t *testing.T) {
	x, stats := moe()
	if len(x.Rows) != 2115 {
		t.Fatal(len(x.Rows))
	}
	q := opened(t, x, Query{Group: "role"}, "model.layers.{0..31}", "self_attn.{q,k,v,o}_proj.weight", "mlp.experts.{0..19}", "down_proj.weight")
	check(t, shown(x, q, stats), `2115 found, 15 rows
model.embed_tokens.weight 0.02 0.02 4
v model.layers.{0..31} 2112 BF16 F32 [] 540672 0 0.03 132 1 damaged, 1 with NaN, 3 all zero
  v self_attn.{q,k,v,o}_proj.weight 128 BF16 [8 8] 32768 0.02 0.03 31 1 with NaN
    > q_proj.weight 32 BF16 [8 8] 8192 0.02 0.02 4 12 NaN in layer 23
    > k_proj.weight 32 BF16 [8 8] 8192 0.02 0.02 4
    > v_proj.weight 32 BF16 [8 8] 8192 0.02 0.02 4
    > o_proj.weight 32 BF16 [8 8] 8192 0.02 0.03 31 layers 1, 2
  v mlp.experts.{0..19} 1920 BF16 [8 8] 491520 0 0.02 132 1 damaged, 3 all zero
    > gate_proj.weight 640 BF16 [8 8] 163840 0 0.02 4 1 all zero
    > up_proj.weight 640 BF16 [8 8] 163840 0 0.02 4 1 damaged, 1 all zero
    v down_proj.weight 640 BF16 [8 8] 163840 0 0.02 132 1 all zero
  > input_layernorm.weight 32 F32 [8] 8192 0.02 0.02 4
  > post_attention_layernorm.weight 32 F32 [8] 8192 0.02 0.02 4
lm_head.weight 0.02 0.02 4
model.norm.weight 0.02 0.02 4
`)
	a := listOf(x, Query{Group: "role", Open: q.Open, From: 10, Count: 1}, stats)
	if down := a.Window[0]; down.Experts != 20 || len(down.ByLayer) != 32 || len(down.ByLayer[3]) != 20 {
		t.Errorf("%+v", down)
	} else if all := listOf(x, Query{Search: down.Search}, nil); all.Matches != 640 {
		t.Errorf("%q finds %d", down.Search, all.Matches)
	}
	a = listOf(x, Query{Group: "role", From: 1, Count: 1}, stats)
	strip := a.Window[0].ByLayer
	if len(strip) != 32 || x.Rows[strip[3][0]].Expert != 7 || x.Rows[strip[9][0]].Expert != 3 || x.Rows[strip[5][0]].Expert != 11 {
		t.Errorf("%v", strip)
	}
	if got := fmt.Sprint(a.Shows); got != "[{ 2115} {BF16 2050} {F32 65} {odd 8}]" {
		t.Error(got)
	}
	q.Sort = "-max_sigma"
	got := shown(x, q, stats)
	if first := strings.Split(got, "\n")[1:4]; !strings.HasPrefix(first[0], "v model.layers") || !strings.HasPrefix(first[1], "  v mlp.experts") ||
		!strings.HasPrefix(first[2], "    v down_proj") {
		t.Error(got)
	}
}

func TestListOfBERT(t *testing.T) {
	x := New(minilm(t))
	q := opened(t, x, Query{Group: "role"}, "encoder.layer.{0..5}")
	check(t, shown(x, q, nil), `104 found, 13 rows
embeddings.position_ids
embeddings.LayerNorm.bias
embeddings.LayerNorm.weight
embeddings.position_embeddings.weight
embeddings.token_type_embeddings.weight
embeddings.word_embeddings.weight
v encoder.layer.{0..5} 96 F32 [] 42587136
  > attention.self.{query,key,value}.{weight,bias} 36 F32 [] 10644480
  > attention.output.{dense,LayerNorm}.{weight,bias} 24 F32 [] 3566592
  > intermediate.dense.{weight,bias} 12 F32 [] 14192640
  > output.{dense,LayerNorm}.{weight,bias} 24 F32 [] 14183424
pooler.dense.bias
pooler.dense.weight
`)
	q = Query{Group: "layer", Search: "encoder down layer 3"}
	check(t, shown(x, q, nil), "2 found, 1 rows\n> encoder.layer.3 2 F32 [] 2360832\n")
	q = opened(t, x, q, "encoder.layer.3")
	check(t, shown(x, q, nil), `2 found, 3 rows
v encoder.layer.3 2 F32 [] 2360832
  encoder.layer.3.output.dense.weight
  encoder.layer.3.output.dense.bias
`)
}

func TestListWithoutGroups(t *testing.T) {
	x, stats := moe()
	check(t, shown(x, Query{Group: "none", Search: "layer 3 down", Sort: "-max_sigma", From: 0, Count: 2}, stats), `20 found, 20 rows
model.layers.3.mlp.experts.7.down_proj.weight 0.02 0.02 132
model.layers.3.mlp.experts.0.down_proj.weight 0.02 0.02 4
`)
	for _, tt := range []struct{ sort, first, last string }{
		{"max_sigma", "lm_head.weight", "model.layers.9.mlp.experts.3.up_proj.weight"},
		{"-max_sigma", "model.layers.3.mlp.experts.7.down_proj.weight", "model.layers.9.mlp.experts.3.up_proj.weight"},
		{"-note", "model.layers.9.mlp.experts.3.up_proj.weight", "model.norm.weight"},
		{"name", "lm_head.weight", "model.norm.weight"},
		{"-name", "model.norm.weight", "lm_head.weight"},
		{"-type", "model.layers.0.input_layernorm.weight", "model.layers.31.self_attn.v_proj.weight"},
	} {
		a := listOf(x, Query{Group: "none", Sort: tt.sort, Count: 3000}, stats)
		if first, last := a.Window[0].Name, a.Window[len(a.Window)-1].Name; len(a.Window) != 2115 || first != tt.first || last != tt.last {
			t.Errorf("%s: %s to %s", tt.sort, first, last)
		}
	}
	for _, key := range []string{"-max_sigma", "name", "-std", "size"} {
		all := listOf(x, Query{Group: "none", Sort: key, Count: 3000}, stats)
		for from := 0; from < 40; from += 20 {
			some := listOf(x, Query{Group: "none", Sort: key, From: from, Count: 20}, stats)
			if some.Rows != all.Rows || len(some.Window) != 20 {
				t.Errorf("%s from %d: %d rows of %d", key, from, len(some.Window), some.Rows)
			}
			for i, r := range some.Window {
				if r.Name != all.Window[from+i].Name {
					t.Errorf("%s: %s at %d", key, r.Name, from+i)
				}
			}
		}
	}
	check(t, shown(x, Query{Group: "none", Show: "odd", Sort: "name"}, stats), `8 found, 8 rows
model.layers.1.self_attn.o_proj.weight 0.03 0.03 31
model.layers.2.self_attn.o_proj.weight 0.03 0.03 31
model.layers.3.mlp.experts.7.down_proj.weight 0.02 0.02 132
model.layers.5.mlp.experts.11.down_proj.weight 0 0 NaN all zero
model.layers.5.mlp.experts.11.gate_proj.weight 0 0 NaN all zero
model.layers.5.mlp.experts.11.up_proj.weight 0 0 NaN all zero
model.layers.9.mlp.experts.3.up_proj.weight NaN NaN NaN damaged
model.layers.23.self_attn.q_proj.weight 0.02 0.02 4 12 NaN
`)
	for _, q := range []Query{{Sort: "-nothing"}, {Search: strings.Repeat("a ", 17)}, {Search: strings.Repeat("*a", 10000)}} {
		if a := listOf(x, q, stats); a.Problem == "" || len(a.Window) > 0 {
			t.Errorf("%+v: %+v", q, a)
		}
	}
	for _, q := range []Query{{From: -1, Count: -1}, {From: math.MaxInt, Count: math.MaxInt}, {Open: []string{"s9", "r-1", ""}}} {
		if a := listOf(x, q, nil); len(a.Window) > 0 || a.Rows == 0 {
			t.Errorf("%+v: %+v", q, a)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, in := range map[string][]int{
		"": {}, "5": {5, 5}, "0–3": {3, 1, 0, 2}, "1, 2": {1, 2}, "0–3, 7, 8": {0, 1, 2, 3, 7, 8},
		"0, 2, 4, 6, 8, 10, 4 more": {0, 2, 4, 6, 8, 10, 12, 14, 16, 18},
	} {
		if got, _ := Ranges(in); got != want {
			t.Errorf("%v: %q instead of %q", in, got, want)
		}
	}
}

// BenchmarkKey answers one key press in a list of 200,000 names.
func BenchmarkKey(b *testing.B) {
	rows := named(expand(100, 660, "model.layers.N.mlp.experts.E.down_proj.weight", "model.layers.N.mlp.experts.E.gate_proj.weight",
		"model.layers.N.mlp.experts.E.up_proj.weight", "model.layers.N.self_attn.q_proj.weight", "model.layers.N.self_attn.k_proj.weight", "model.embed_tokens.weight")...)
	x := New(rows)
	stats := make([]*answer.TensorStat, len(rows))
	for i := range stats {
		stats[i] = &answer.TensorStat{Finite: 64, Std: answer.Real(i % 1000), MaxSigma: answer.Real(i * 7919 % 100003)}
	}
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			New(rows)
		}
	})
	for _, q := range []Query{
		{Group: "role"}, {Group: "layer"}, {Group: "none"}, {Group: "none", Sort: "-max_sigma"}, {Group: "none", Sort: "name"}, {Group: "role", Sort: "-max_sigma"},
		{Group: "role", Search: "l"}, {Group: "none", Search: "q_proj"}, {Group: "none", Search: "down_proj.weight"}, {Group: "none", Search: "layer 3 down", Sort: "-max_sigma"},
		{Group: "none", Search: "*.experts.*.down_proj.*"}, {Group: "none", Search: "*.experts.[0-4].{down,up}_proj.*"},
	} {
		q.Count = 60
		b.Run(fmt.Sprintf("group=%s/sort=%s/%s", q.Group, q.Sort, strings.ReplaceAll(q.Search, " ", "_")), func(b *testing.B) {
			for b.Loop() {
				listOf(x, q, stats)
			}
		})
	}
}

// endsAfter is a context that ends once it was asked a number of times.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestListEnds: a search ends with its context, in the middle of the names too.
func TestListEnds(t *testing.T) {
	for _, names := range [][]string{expand(500, 0, "layers.N.w"), expand(500, 0, "table_N")} {
		x := New(named(names...))
		for _, search := range []string{"*", "w", ""} {
			ctx := &endsAfter{context.Background(), 5}
			if _, err := x.List(ctx, Query{Search: search, Count: 10}, nil); err != context.Canceled || ctx.left < -10 {
				t.Errorf("%q: %v, and asked %d times more", search, err, -ctx.left)
			}
		}
	}
}

// TestFewOfManyLayers: a search makes no groups of layers where it finds nothing.
func TestFewOfManyLayers(t *testing.T) {
	x := New(named(expand(5000, 1, "layers.N.a", "layers.N.b")...))
	q := Query{Search: "layers.77.*", Group: "layer", Count: 10}
	if allocs := testing.AllocsPerRun(3, func() { listOf(x, q, nil) }); allocs > 200 {
		t.Errorf("%v allocations", allocs)
	}
	check(t, shown(x, q, nil), "2 found, 1 rows\n> layers.77 2 F32 [8 8] 512\n")
}

// TestUnfold: groups unfold at once as they do one by one, up to a bound.
func TestUnfold(t *testing.T) {
	x := New(named(expand(13, 20, "model.layers.N.mlp.experts.E.down_proj.weight", "model.layers.N.mlp.gate.weight", "model.layers.N.self_attn.q_proj.weight", "model.embed_tokens.weight")...))
	for _, group := range []string{"role", "layer", "none"} {
		one := Query{Group: group, Count: 1000}
		for before := -1; before < len(one.Open); {
			before = len(one.Open)
			for _, r := range listOf(x, one, nil).Window {
				if r.Tensor == nil && !r.IsOpen {
					one.Open = append(one.Open, r.ID)
				}
			}
		}
		groups := len(one.Open)
		check(t, shown(x, Query{Group: group, Unfold: 1000}, nil), shown(x, one, nil))
		if group == "none" {
			continue
		}
		open := 0
		for _, r := range listOf(x, Query{Group: group, Unfold: groups - 2, Count: 1000}, nil).Window {
			if r.IsOpen {
				open++
			}
		}
		if open != groups-2 {
			t.Errorf("by %s: %d of %d groups are open", group, open, groups)
		}
	}
}

// TestLongLeaves: names of a megabyte, with as many underscores, take no time that grows with their square.
func TestLongLeaves(t *testing.T) {
	long := strings.Repeat("x_", 1<<19)
	if got := joined([]string{long + "a_b", long + "b_b"}); got != "*" {
		t.Errorf("%d bytes", len(got))
	}
}
