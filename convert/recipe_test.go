package convert_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

// llamaModel is a model of so many layers with ggml's or Hugging Face's names.
func llamaModel(t *testing.T, layers int, hugging bool) []byte {
	names := map[string]string{"attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_down": "mlp.down_proj", "ffn_up": "mlp.up_proj"}
	var list []content
	add := func(name string, shape ...int) { list = append(list, counting(name, layout.F16, shape...)) }
	if hugging {
		add("model.embed_tokens.weight", 2, 256)
		add("lm_head.weight", 2, 256)
	} else {
		add("token_embd.weight", 2, 256)
		add("output.weight", 2, 256)
	}
	for i := range layers {
		for _, part := range []string{"attn_v", "attn_output", "ffn_down", "ffn_up"} {
			if hugging {
				add(fmt.Sprintf("model.layers.%d.%s.weight", i, names[part]), 2, 256)
			} else {
				add(fmt.Sprintf("blk.%d.%s.weight", i, part), 2, 256)
			}
		}
		add(fmt.Sprintf("blk.%d.attn_norm.weight", i), 256)
	}
	add("blk.0.odd.weight", 2, 288)
	add("blk.0.odder.weight", 2, 40)
	add("token_types.weight", 2, 256)
	return apr2File(t, parse(t, fmt.Sprintf(`{"model_type":"llama","architecture":{"num_hidden_layers":%d,"num_attention_heads":32,"num_key_value_heads":8}}`, layers)), list...)
}

// TestRecipes compares with what llama.cpp's llama_tensor_get_type says of a model of 32 layers. Its
// use_more_bits holds in the first and last 4, and from the fourth on in every third.
func TestRecipes(t *testing.T) {
	more := map[int]bool{0: true, 1: true, 2: true, 3: true, 6: true, 9: true, 12: true, 15: true, 18: true, 21: true, 24: true, 27: true, 28: true, 29: true, 30: true, 31: true}
	pick := func(yes bool, a, b layout.DType) layout.DType {
		if yes {
			return a
		}
		return b
	}
	same := func(d layout.DType) func(int) layout.DType { return func(int) layout.DType { return d } }
	q3, q4, q5, q6, q8 := layout.Q3_K, layout.Q4_K, layout.Q5_K, layout.Q6_K, layout.Q8_0
	for name, want := range map[string]struct {
		ftype               uint32
		output, embed, up   layout.DType
		odd                 layout.DType // for rows of 288
		value, out, ffnDown func(layer int) layout.DType
	}{
		"q4_k_m": {15, q6, q4, q4, layout.Q5_0, func(i int) layout.DType { return pick(more[i], q6, q4) }, func(int) layout.DType { return q4 }, func(i int) layout.DType { return pick(more[i], q6, q4) }},
		"q4_k_s": {14, q6, q4, q4, layout.Q5_0, func(i int) layout.DType { return pick(i < 4, q5, q4) }, func(int) layout.DType { return q4 }, func(i int) layout.DType { return pick(i < 4, q5, q4) }},
		"q5_k_m": {17, q6, q5, q5, layout.Q5_1, func(i int) layout.DType { return pick(more[i], q6, q5) }, func(int) layout.DType { return q5 }, func(i int) layout.DType { return pick(more[i], q6, q5) }},
		"q3_k_m": {12, q6, q3, q3, layout.Q4_0, func(i int) layout.DType { return pick(i < 2, q5, q4) }, func(int) layout.DType { return q4 }, func(i int) layout.DType { return pick(i < 2, q5, q4) }},
		"q3_k_l": {13, q6, q3, q3, layout.Q4_0, func(int) layout.DType { return q5 }, func(int) layout.DType { return q5 }, func(int) layout.DType { return q5 }},
		"q2_k":   {10, q6, layout.Q2_K, layout.Q2_K, layout.Q4_0, func(int) layout.DType { return q4 }, func(int) layout.DType { return q3 }, func(int) layout.DType { return q3 }},
		"q2_k_s": {21, q6, layout.Q2_K, layout.Q2_K, layout.Q4_0, func(int) layout.DType { return q4 }, same(layout.Q2_K), func(i int) layout.DType { return pick(i < 4, q4, layout.Q2_K) }},
		"q6_k":   {18, q6, q6, q6, q8, same(q6), same(q6), same(q6)},
		"q8_0":   {7, q8, q8, q8, q8, same(q8), same(q8), same(q8)},
		"q4_0":   {2, q6, layout.Q4_0, layout.Q4_0, layout.Q4_0, same(layout.Q4_0), same(layout.Q4_0), same(layout.Q4_0)},
		"q4_1":   {3, q6, layout.Q4_1, layout.Q4_1, layout.Q4_1, same(layout.Q4_1), same(layout.Q4_1), same(layout.Q4_1)},
		"q5_0":   {8, q6, layout.Q5_0, layout.Q5_0, layout.Q5_0, same(layout.Q5_0), same(layout.Q5_0), same(layout.Q5_0)},
		"q5_1":   {9, q6, layout.Q5_1, layout.Q5_1, layout.Q5_1, same(layout.Q5_1), same(layout.Q5_1), same(layout.Q5_1)},
		"iq4_nl": {25, q6, layout.IQ4_NL, layout.IQ4_NL, layout.IQ4_NL, same(q5), same(layout.IQ4_NL), func(i int) layout.DType { return pick(i < 4, q5, layout.IQ4_NL) }},
		"iq4_xs": {30, q6, layout.IQ4_XS, layout.IQ4_XS, layout.IQ4_NL, same(q5), same(layout.IQ4_XS), func(i int) layout.DType { return pick(i < 4, q5, layout.IQ4_XS) }},

		"mxfp4_moe": {38, q8, q8, q8, q8, same(q8), same(q8), same(q8)},
	} {
		for _, hugging := range []bool{false, true} {
			m := openBytes(t, llamaModel(t, 32, hugging))
			p, err := convert.NewPlan(context.Background(), m, "x.gguf", &convert.Options{Recipe: name})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := p.Metadata.Get("general.file_type"); got != want.ftype {
				t.Errorf("%s: file type %v", name, got)
			}
			got := make(map[string]convert.Tensor)
			for _, x := range p.Tensors {
				got[x.Name] = x
			}
			check := func(tensor string, d layout.DType) {
				t.Helper()
				if x, ok := got[tensor]; !ok || x.To != d {
					t.Errorf("%s: %s is %v, want %v", name, tensor, x.To, d)
				}
			}
			form, output, embed := "blk.%d.%s.weight", "output.weight", "token_embd.weight"
			parts := []string{"attn_v", "attn_output", "ffn_down", "ffn_up"}
			if hugging {
				form, output, embed = "model.layers.%d.%s.weight", "lm_head.weight", "model.embed_tokens.weight"
				parts = []string{"self_attn.v_proj", "self_attn.o_proj", "mlp.down_proj", "mlp.up_proj"}
			}
			check(output, want.output)
			check(embed, want.embed)
			for i := range 32 {
				check(fmt.Sprintf(form, i, parts[0]), want.value(i))
				check(fmt.Sprintf(form, i, parts[1]), want.out(i))
				check(fmt.Sprintf(form, i, parts[2]), want.ffnDown(i))
				check(fmt.Sprintf(form, i, parts[3]), want.up)
				check(fmt.Sprintf("blk.%d.attn_norm.weight", i), layout.F16)
			}
			check("blk.0.odd.weight", want.odd)
			check("blk.0.odder.weight", layout.F16)
			check("token_types.weight", layout.F16)
			if dtype, _ := layout.ParseDType(strings.ToUpper(name)); dtype.BlockElems() == 256 && got["blk.0.odd.weight"].Fallback == "" || got["token_types.weight"].NotReencoded == "" {
				t.Errorf("%s: no reasons: %+v", name, got["blk.0.odd.weight"])
			}
		}
	}
	m := openBytes(t, llamaModel(t, 8, false))
	p, err := convert.NewPlan(context.Background(), m, "x.gguf", &convert.Options{Recipe: "q4_k_m", TypeOf: func(name string) layout.DType {
		if name == "output.weight" {
			return q8
		}
		return layout.Invalid
	}})
	if err != nil || p.Tensors[1].To != q8 {
		t.Errorf("%v, %+v", err, p.Tensors[1])
	}
	if _, err := convert.NewPlan(context.Background(), m, "x.gguf", &convert.Options{Recipe: "q9"}); !errors.Is(err, layout.ErrUnsupported) {
		t.Error(err)
	}
	bad := func(string) layout.DType { return layout.IQ1_S }
	if _, err := convert.NewPlan(context.Background(), m, "x.gguf", &convert.Options{DType: q8, TypeOf: bad}); !errors.Is(err, layout.ErrUnsupported) {
		t.Error(err)
	}
}

// TestRecipesOfExperts has the types of a model with eight experts, and of Falcon.
func TestRecipesOfExperts(t *testing.T) {
	list := []content{
		counting("output.weight", layout.F16, 2, 256),
		counting("blk.0.attn_v.weight", layout.F16, 2, 256), counting("blk.0.attn_k.weight", layout.F16, 2, 256),
		counting("blk.0.attn_output.weight", layout.F16, 2, 256), counting("blk.0.ffn_down_exps.weight", layout.F16, 8, 2, 256),
		counting("blk.1.attn_kv_b.weight", layout.F16, 2, 256),
	}
	for _, c := range []struct {
		recipe, arch string
		want         []layout.DType
	}{
		{"q6_k", "llama", []layout.DType{layout.Q6_K, layout.Q8_0, layout.Q8_0, layout.Q6_K, layout.Q6_K, layout.Q8_0}},
		{"q4_0", "llama", []layout.DType{layout.Q6_K, layout.Q8_0, layout.Q8_0, layout.Q4_0, layout.Q4_0, layout.Q8_0}},
		{"iq4_xs", "llama", []layout.DType{layout.Q6_K, layout.Q8_0, layout.Q8_0, layout.Q5_K, layout.IQ4_XS, layout.Q8_0}},
		{"mxfp4_moe", "llama", []layout.DType{layout.Q8_0, layout.Q8_0, layout.Q8_0, layout.Q8_0, layout.MXFP4, layout.Q8_0}},
		{"q6_k", "falcon", []layout.DType{layout.Q8_0, layout.Q8_0, layout.Q8_0, layout.Q6_K, layout.Q6_K, layout.Q8_0}},
	} {
		m := openBytes(t, apr2File(t, parse(t, fmt.Sprintf(`{"model_type":%q,"architecture":{"num_hidden_layers":2,"num_local_experts":8}}`, c.arch)), list...))
		p, err := convert.NewPlan(context.Background(), m, "x.gguf", &convert.Options{Recipe: c.recipe})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if p.Tensors[i].To != want {
				t.Errorf("%s of %s: %s is %v, want %v", c.recipe, c.arch, p.Tensors[i].Name, p.Tensors[i].To, want)
			}
		}
	}
	weighed := convert.Importance{"blk.0.ffn_down.weight": make([]float32, 256)}
	var few []content
	for i := range 8 {
		few = append(few, counting(fmt.Sprintf("blk.%d.ffn_down.weight", i), layout.F16, 2, 256))
	}
	m := openBytes(t, apr2File(t, parse(t, `{"model_type":"llama","architecture":{"num_hidden_layers":8}}`), few...))
	for name, want := range map[string][2]layout.DType{"q4_0": {layout.Q4_1, layout.Q4_0}, "q5_0": {layout.Q5_1, layout.Q5_0}, "iq4_nl": {layout.IQ4_NL, layout.IQ4_NL}} {
		p, err := convert.NewPlan(context.Background(), m, "x.gguf", &convert.Options{Recipe: name, Importance: weighed})
		if err != nil || p.Tensors[0].To != want[0] || p.Tensors[1].To != want[1] {
			t.Errorf("%s by importance: %v, %v %v, want %v", name, err, p.Tensors[0].To, p.Tensors[1].To, want)
		}
	}
}

// TestRecipesByLayer: layers are counted by their weights, in the order in which llama.cpp has them, and models of 70 billion parameters and
// heads of each layer are known.
func TestRecipesByLayer(t *testing.T) {
	more := func(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }
	pick := func(yes bool) layout.DType {
		if yes {
			return layout.Q6_K
		}
		return layout.Q4_K
	}
	weight := func(format string, i int) content { return counting(fmt.Sprintf(format, i), layout.F16, 2, 256) }
	plan := func(recipe, metadata string, list ...content) map[string]convert.Tensor {
		t.Helper()
		p, err := convert.NewPlan(t.Context(), openBytes(t, apr2File(t, parse(t, metadata), list...)), "x.gguf", &convert.Options{Recipe: recipe})
		if err != nil {
			t.Fatal(err)
		}
		tensors := make(map[string]convert.Tensor)
		for _, x := range p.Tensors {
			tensors[x.Name] = x
		}
		return tensors
	}
	check := func(tensors map[string]convert.Tensor, name string, want layout.DType) {
		t.Helper()
		if x := tensors[name]; x.To != want {
			t.Errorf("%s is %v (%s), want %v", name, x.To, x.NotReencoded, want)
		}
	}

	var list, hugging []content
	for i := range 16 {
		list = append(list, counting(fmt.Sprintf("blk.%d.ffn_down.bias", i), layout.F16, 256), weight("blk.%d.ffn_down.weight", i), weight("blk.%d.ssm_a", i))
		hugging = append(hugging, counting(fmt.Sprintf("model.layers.%d.mlp.down_proj.bias", i), layout.F16, 256), weight("model.layers.%d.mlp.down_proj.weight", i))
	}
	slices.Reverse(list) // the order of the file does not count
	for _, recipe := range []string{"q4_k_m", "q4_k"} {
		ggml, other := plan(recipe, `{"model_type":"gpt2"}`, list...), plan(recipe, `{"model_type":"gpt2"}`, hugging...)
		for i := range 16 {
			check(ggml, fmt.Sprintf("blk.%d.ffn_down.weight", i), pick(more(i, 16)))
			check(ggml, fmt.Sprintf("blk.%d.ssm_a", i), layout.F16)
			check(other, fmt.Sprintf("model.layers.%d.mlp.down_proj.weight", i), pick(more(i, 16)))
		}
	}

	// T5: by names, the decoder's first, and 10 before 2.
	var t5 []content
	for i := range 16 {
		t5 = append(t5, weight("enc.blk.%d.ffn_down.weight", i))
	}
	tensors := plan("q4_k_m", `{"model_type":"t5","architecture":{"num_hidden_layers":16}}`, t5...)
	for place, i := range []int{0, 1, 10, 11, 12, 13, 14, 15, 2, 3, 4, 5, 6, 7, 8, 9} {
		check(tensors, fmt.Sprintf("enc.blk.%d.ffn_down.weight", i), pick(more(place, 16)))
	}

	for metadata, want := range map[string]layout.DType{
		`{"model_type":"llama","architecture":{"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8}}`: layout.Q5_K,
		`{"model_type":"llama","architecture":{"num_hidden_layers":80,"num_attention_heads":64}}`:                         layout.Q3_K,
		`{"model_type":"qwen2","architecture":{"num_hidden_layers":80,"num_attention_heads":64}}`:                         layout.Q5_K,
		`{"model_type":"qwen2","architecture":{"num_hidden_layers":64,"num_attention_heads":40}}`:                         layout.Q3_K,
		`{"model_type":"jais2","architecture":{"num_hidden_layers":68}}`:                                                  layout.Q5_K,
	} {
		check(plan("q3_k_s", metadata, weight("blk.%d.attn_v.weight", 0)), "blk.0.attn_v.weight", want)
	}
	for heads, want := range map[string]layout.DType{"[8,0,8]": layout.Q4_K, "[0,8,8]": layout.Q3_K, "[]": layout.Q3_K, "8": layout.Q4_K, "16": layout.Q3_K} {
		md := fmt.Sprintf(`{"model_type":"lfm2","architecture":{"num_attention_heads":32,"num_key_value_heads":%s}}`, heads)
		check(plan("q2_k", md, weight("blk.%d.attn_v.weight", 0)), "blk.0.attn_v.weight", want)
	}
	for arch, want := range map[string]layout.DType{"llama": layout.MXFP4, "bailingmoe3": layout.Q8_0} {
		tensors := plan("mxfp4_moe", fmt.Sprintf(`{"model_type":%q}`, arch), counting("blk.0.attn_k_b.weight", layout.F16, 2, 2, 256),
			counting("blk.0.ffn_up_exps.weight", layout.F16, 2, 2, 256), counting("blk.0.ffn_up.weight", layout.F16, 1, 2, 256))
		check(tensors, "blk.0.attn_k_b.weight", want)
		check(tensors, "blk.0.ffn_up_exps.weight", layout.MXFP4)
		check(tensors, "blk.0.ffn_up.weight", layout.Q8_0)
	}
}

// TestRecipeNames gives matrices their types by the names that families of models have on Hugging Face.
func TestRecipeNames(t *testing.T) {
	const value, key, down, out = layout.Q8_0, layout.Q8_0, layout.Q3_K, layout.Q6_K // of eight experts in q2_k
	want := map[string]layout.DType{
		"language_model.lm_head.weight":                                      out,
		"gpt_neox.layers.0.attention.dense.weight":                           layout.Q5_K,
		"h.0.attn.c_proj.weight":                                             layout.Q5_K,
		"transformer.h.0.self_attention.query_key_value.weight":              value,
		"transformer.h.0.attn.c_attn.weight":                                 value,
		"model.layers.0.attention.wqkv.weight":                               value,
		"layers.0.attention.wk.weight":                                       key,
		"model.layers.0.feed_forward.w2.weight":                              down,
		"model.layers.0.block_sparse_moe.experts.7.w2.weight":                down,
		"model.layers.0.block_sparse_moe.experts.7.w1.weight":                layout.Q2_K,
		"transformer.h.0.mlp.w2.weight":                                      layout.Q2_K,
		"transformer.h.0.mlp.c_proj.weight":                                  down,
		"gpt_neox.layers.0.mlp.dense_4h_to_h.weight":                         down,
		"vision_tower.vision_model.encoder.layers.0.self_attn.v_proj.weight": layout.Q2_K,
		"model.vision_model.encoder.layers.0.mlp.down_proj.weight":           layout.Q2_K,
		"language_model.model.layers.0.self_attn.v_proj.weight":              value,
		"language_model.model.layers.0.mlp.down_proj.weight":                 down,
		"language_model.model.embed_tokens.weight":                           layout.Q2_K,
	}
	var list []content
	for name := range want {
		list = append(list, counting(name, layout.F16, 2, 256))
	}
	m := openBytes(t, apr2File(t, parse(t, `{"architecture":{"num_local_experts":8}}`), list...))
	p, err := convert.NewPlan(t.Context(), m, "x.apr", &convert.Options{Recipe: "q2_k"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range p.Tensors {
		if x.To != want[x.Name] {
			t.Errorf("%s is %v, want %v", x.Name, x.To, want[x.Name])
		}
	}
}

// TestHalvesInGGUF: F16 and BF16 leave the F32 tensors alone that llama.cpp leaves alone, and --type falls back as a recipe does.
func TestHalvesInGGUF(t *testing.T) {
	m := openBytes(t, apr2File(t, nil, counting("blk.0.attn_norm.weight", layout.F32, 256), counting("blk.0.ffn_up.bias", layout.BF16, 256),
		counting("blk.0.ffn_up.weight", layout.F32, 2, 288), counting("blk.0.ssm_conv1d.weight", layout.F32, 2, 256), counting("blk.0.odd.weight", layout.F32, 2, 40)))
	for _, c := range []struct {
		out  string
		opts convert.Options
		want []layout.DType
	}{
		{"x.gguf", convert.Options{DType: layout.F16}, []layout.DType{layout.F32, layout.F16, layout.F16, layout.F32}},
		{"x.gguf", convert.Options{Recipe: "q8_0"}, []layout.DType{layout.F32, layout.BF16, layout.Q8_0, layout.F32, layout.F16}},
		{"x.gguf", convert.Options{Recipe: "q4_k_m"}, []layout.DType{layout.F32, layout.BF16, layout.Q5_0, layout.F32, layout.F16}},
		{"x.gguf", convert.Options{DType: layout.Q8_0}, []layout.DType{layout.F32, layout.BF16, layout.Q8_0, layout.F32, layout.F32}},
		{"x.gguf", convert.Options{DType: layout.F16, All: true}, []layout.DType{layout.F16, layout.F16, layout.F16, layout.F16}},
		{"x.gguf", convert.Options{DType: layout.BF16}, []layout.DType{layout.F32, layout.BF16, layout.BF16, layout.F32}},
		{"x.apr", convert.Options{DType: layout.F16}, []layout.DType{layout.F16, layout.F16, layout.F16, layout.F16}},
		{"x.gguf", convert.Options{DType: layout.Q8_0, TypeOf: func(string) layout.DType { return layout.Q4_K }}, []layout.DType{layout.F32, layout.BF16, layout.Q5_0, layout.F32}},
	} {
		p, err := convert.NewPlan(t.Context(), m, c.out, &c.opts)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if x := p.Tensors[i]; x.To != want {
				t.Errorf("%s, %v: %s is %v, want %v", c.out, c.opts.DType, x.Name, x.To, want)
			}
		}
	}
}

// TestImportance reads what Python's gguf has written, and quantizes rows and experts by it.
func TestImportance(t *testing.T) {
	imp, err := convert.ReadImportance("testdata/imatrix.gguf")
	if err != nil || len(imp["w"]) != 256 || len(imp["experts"]) != 512 || imp["experts"][300] != 1 {
		t.Fatalf("%v, %d, %d", err, len(imp["w"]), len(imp["experts"]))
	}
	a, w := weights("w", 5, 256)
	b, experts := weights("experts", 2, 3, 256)
	c, _ := weights("none", 5, 256)
	m := openBytes(t, safeTensors(0, "{}", a, b, c))
	for _, d := range []layout.DType{layout.Q4_K, layout.Q4_0, layout.IQ4_NL, layout.Q8_0} {
		out, p := toGGUF(t, m, &convert.Options{DType: d, Importance: imp})
		codec, err := dequant.NewCodec(d, layout.Quant{}, false)
		if err != nil {
			t.Fatal(err)
		}
		expect := func(x, importance []float32) []byte {
			b := make([]byte, len(x)/d.BlockElems()*d.BlockBytes())
			if err := quantize.Encode(codec, b, x, importance, 1); err != nil {
				t.Fatal(err)
			}
			return b
		}
		for name, want := range map[string][]byte{
			"w":       expect(w, imp["w"]),
			"experts": append(expect(experts[:768], imp["experts"][:256]), expect(experts[768:], imp["experts"][256:])...),
			"none":    expect(w, nil),
		} {
			if got := contents(t, tensor(t, out, name)); !bytes.Equal(got, want) {
				t.Errorf("%v: %s: other bytes", d, name)
			}
		}
		for _, x := range p.Tensors {
			if x.Weighted != (x.Name != "none") {
				t.Errorf("%s: weighted %t", x.Name, x.Weighted)
			}
		}
	}
	negative, nan := make([]float32, 256), make([]float32, 512)
	negative[3], nan[511] = -1, float32(math.NaN())
	for _, imp := range []convert.Importance{{"w": negative}, {"experts": nan}, {"w": make([]float32, 255)}, {"experts": make([]float32, 768)}, {"other": make([]float32, 256)}} {
		if _, err := convert.NewPlan(context.Background(), m, "x.gguf", &convert.Options{DType: layout.Q4_K, Importance: imp}); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%d names: %v", len(imp), err)
		}
	}
	if _, err := convert.ReadImportance("../testdata/gguf/llama.gguf"); !errors.Is(err, layout.ErrInvalid) {
		t.Error(err)
	}
	old := binary.LittleEndian.AppendUint32(nil, 1) // entries, then the length of a name, it, calls, values
	old = append(append(old, 1, 0, 0, 0, 'w'), 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0x3f)
	path := write(t, old)
	if _, err := convert.ReadImportance(path); !errors.Is(err, layout.ErrFormat) || err.Error() != path+": unknown format for an importance matrix, which is GGUF; llama-imatrix --in-file OLD -o NEW.gguf converts older ones" {
		t.Error(err)
	}
	if _, err := convert.ReadImportance(filepath.Join(t.TempDir(), "no.gguf")); err == nil {
		t.Error("no file, no error")
	}
}

// TestUselessImportance: columns without importance, or with one whose sums leave float32, are quantized as well as any, and
// counted. The matrix is of GGUF, as llama-imatrix writes it.
func TestUselessImportance(t *testing.T) {
	const rows, columns = 3, 768
	c, x := weights("w", rows, columns)
	odd, y := weights("odd", rows, 288) // rows of which IQ4_XS and the K-quants take no blocks
	m := openBytes(t, safeTensors(0, "{}", c, odd))
	for _, w := range []float32{0, 1e34} {
		importance := func(n int) []float32 {
			list := slices.Repeat([]float32{0.5}, n)
			for i := range min(256, n) {
				list[i] = w
			}
			return list
		}
		floats := func(name string, x ...float32) content {
			return content{name, layout.F32, []int{len(x)}, modeltest.Float32s(x...)}
		}
		_, matrix := toGGUF(t, openBytes(t, safeTensors(0, "{}",
			floats("w.in_sum2", importance(columns)...), floats("w.counts", 1), floats("odd.in_sum2", importance(288)...), floats("odd.counts", 1))), nil)
		imp, err := convert.ReadImportance(matrix.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range slices.Concat(searched, encodable) {
			if !d.Quantized() || d == layout.MXFP4 || d == layout.Q8_0 {
				continue // which have no search
			}
			out, p := toGGUF(t, m, &convert.Options{DType: d, Importance: imp})
			for _, of := range []struct {
				name string
				x    []float32
			}{{"w", x}, {"odd", y}} {
				var wrong, all float64
				got := values(t, tensor(t, out, of.name))
				for i, v := range of.x {
					wrong, all = wrong+math.Pow(float64(got[i]-v), 2), all+math.Pow(float64(v), 2)
				}
				if !(wrong < 0.15*all) { // of Q2_K; NaN is no less
					t.Errorf("%v by %v: %s: error %v of %v", d, w, of.name, wrong, all)
				}
			}
			for _, x := range p.Tensors {
				if want := uint64(rows * 256 / x.To.BlockElems()); x.To.Quantized() && x.Weighted && x.To != layout.Q8_0 && x.Lost.Even != want {
					t.Errorf("%v by %v: %s as %v: %d blocks weighed evenly, want %d", d, w, x.Name, x.To, x.Lost.Even, want)
				}
			}
		}
	}
}

// TestSpoiltBlocks: numbers that become NaN or infinite with the scale of their block end the conversion. ggml refuses such
// blocks too (ggml-quants.c, ggml_validate_row_data).
func TestSpoiltBlocks(t *testing.T) {
	large, x := weights("large", 4, 256)
	wide := content{"wide", layout.F64, []int{4, 256}, nil}
	for i := range x {
		x[i] *= 1e9
		wide.data = binary.LittleEndian.AppendUint64(wide.data, math.Float64bits(float64(x[i])*1e300))
	}
	large.data = modeltest.Float32s(x...)
	for _, c := range []content{large, wide} {
		m := openBytes(t, safeTensors(0, "{}", c))
		for _, imp := range []convert.Importance{nil, {c.name: slices.Repeat([]float32{1}, 256)}, {c.name: make([]float32, 256)}} {
			for _, d := range []layout.DType{layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1, layout.Q8_0, layout.Q2_K, layout.Q4_K, layout.Q5_K, layout.Q6_K, layout.IQ4_NL} {
				path := filepath.Join(t.TempDir(), "out.gguf")
				_, err := convert.Write(t.Context(), m, path, &convert.Options{DType: d, Importance: imp})
				if c.name == "large" && (!errors.Is(err, dequant.ErrNotFinite) || !strings.HasPrefix(err.Error(), fmt.Sprintf(`tensor "large" as %v: `, d))) {
					t.Errorf("%v of %s: %v", d, c.name, err)
				}
				if err != nil {
					onlyFiles(t, filepath.Dir(path))
					continue
				}
				for i, v := range values(t, tensor(t, open(t, path, nil), c.name)) {
					if v != v {
						t.Fatalf("%v of %s: element %d is NaN", d, c.name, i)
					}
				}
			}
		}
	}
}

// TestImportanceRefused: what is no importance is refused by name and place, and zeros alone weigh evenly.
func TestImportanceRefused(t *testing.T) {
	floats := func(name string, x ...float32) content {
		return content{name, layout.F32, []int{len(x)}, modeltest.Float32s(x...)}
	}
	read := func(list ...content) (convert.Importance, error) {
		m, path := openBytes(t, safeTensors(0, "{}", list...)), filepath.Join(t.TempDir(), "source.gguf")
		if _, err := convert.Write(t.Context(), m, path, nil); err != nil {
			t.Fatal(err)
		}
		return convert.ReadImportance(path)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for says, list := range map[string][]content{
		`tensor "w.in_sum2": invalid: element 1 is NaN`:                        {floats("w.counts", 1), floats("w.in_sum2", 1, nan)},
		`tensor "w.in_sum2": invalid: element 0 is +Inf`:                       {floats("w.counts", 1), floats("w.in_sum2", inf, 1)},
		`tensor "w.in_sum2": invalid: element 1 is -1`:                         {floats("w.counts", 1), floats("w.in_sum2", 1, -1)},
		`tensor "w.counts": invalid: element 0 is NaN`:                         {floats("w.counts", nan), floats("w.in_sum2", 1, 1)},
		`tensor "w.counts": invalid: element 1 is -2`:                          {floats("w.counts", 1, -2), floats("w.in_sum2", 1, 1)},
		`tensor "w.counts": invalid: element 0 is +Inf`:                        {floats("w.counts", inf), floats("w.in_sum2", 1, 1)},
		`importance of "w": invalid: 3 sums, but 2 counts`:                     {floats("w.counts", 1, 1), floats("w.in_sum2", 1, 1, 1)},
		`"w": invalid: the mean of column 1 is no float32`:                     {floats("w.counts", 1e-40), floats("w.in_sum2", 0, 1)},
		`tensor "w.counts": not found`:                                         {floats("w.in_sum2", 1)},
		`no importance matrix: no tensor is called *.in_sum2`:                  {floats("w.counts", 1)},
		`importance of "w": invalid: 2 sums, but 0 counts`:                     {floats("w.counts"), floats("w.in_sum2", 1, 1)},
		`importance of "w": invalid: 0 sums, but 0 counts`:                     {floats("w.counts"), floats("w.in_sum2")},
		`tensor "w.in_sum2": invalid: F16, where an importance matrix has F32`: {floats("w.counts", 1), {"w.in_sum2", layout.F16, []int{1}, []byte{0, 60}}},
		`tensor "a.in_sum2": invalid: element 0 is -1`:                         {floats("a.counts", 1), floats("a.in_sum2", -1), floats("w.counts", 1), floats("w.in_sum2", 1)},
	} {
		_, err := read(list...)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Count(err.Error(), "source") != 1 {
			t.Errorf("%v, want %s once with its file", err, says)
		}
	}
	compressed := filepath.Join(t.TempDir(), "zeros.apr") // to a 255th
	if _, err := convert.Write(t.Context(), openBytes(t, safeTensors(0, "{}", floats("w.counts", 1), floats("w.in_sum2", make([]float32, 1<<16)...))), compressed, &convert.Options{Compress: convert.High}); err != nil {
		t.Fatal(err)
	}
	if _, err := convert.ReadImportance(compressed); !errors.Is(err, layout.ErrFormat) {
		t.Errorf("of another format: %v", err)
	}
	imp, err := read(floats("w.counts", 2, 0, 4, 8), floats("w.in_sum2", 1, 0, 5, 6, 0, 0, 4, 8))
	if want := []float32{0.5, 0, 1, 1, 1, 1, 0.5, 1}; err != nil || !slices.Equal(imp["w"], want) {
		t.Errorf("%v, %v, want %v", imp["w"], err, want)
	}
}

// TestImportanceOfOriginals: a shape restored from metadata has to fit the importance too.
func TestImportanceOfOriginals(t *testing.T) {
	w, _ := weights("w", 4, 256)
	for columns, want := range map[int]error{256: layout.ErrInvalid, 512: nil} {
		m := openBytes(t, apr2File(t, parse(t, `{"original_tensors":{"w":{"shape":[2,512]}}}`), w))
		opts := &convert.Options{DType: layout.Q4_0, Importance: convert.Importance{"w": slices.Repeat([]float32{1}, columns)}}
		if _, err := convert.Write(t.Context(), m, filepath.Join(t.TempDir(), "x.gguf"), opts); !errors.Is(err, want) {
			t.Errorf("%d columns: %v, want %v", columns, err, want)
		}
	}
}
