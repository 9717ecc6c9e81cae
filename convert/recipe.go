package convert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// A recipe quantizes most matrices to one type and some, by their part in the network, to others. The
// rules are llama.cpp's (src/llama-quant.cpp of 007dbbf3, llama_tensor_get_type_impl), under its names.
type recipe struct {
	dtype layout.DType
	ftype uint32 // llama.h, enum llama_ftype
}

var recipes = map[string]recipe{
	"q4_0": {layout.Q4_0, 2}, "q4_1": {layout.Q4_1, 3}, "q8_0": {layout.Q8_0, 7}, "q5_0": {layout.Q5_0, 8}, "q5_1": {layout.Q5_1, 9},
	"q2_k": {layout.Q2_K, 10}, "q2_k_s": {layout.Q2_K, 21},
	"q3_k_s": {layout.Q3_K, 11}, "q3_k_m": {layout.Q3_K, 12}, "q3_k_l": {layout.Q3_K, 13},
	"q4_k_s": {layout.Q4_K, 14}, "q4_k_m": {layout.Q4_K, 15},
	"q5_k_s": {layout.Q5_K, 16}, "q5_k_m": {layout.Q5_K, 17},
	"q6_k": {layout.Q6_K, 18}, "iq4_nl": {layout.IQ4_NL, 25}, "iq4_xs": {layout.IQ4_XS, 30},
	"mxfp4_moe": {layout.MXFP4, 38},
}

// aliases are llama.cpp's other names of recipes.
var aliases = map[string]string{"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}

// Recipes returns the names that Options.Recipe takes, in order.
func Recipes() []string {
	return slices.Sorted(func(yield func(string) bool) {
		maps.Keys(recipes)(yield)
		maps.Keys(aliases)(yield)
	})
}

// A role is the part that a tensor has in a network.
type role uint8

const (
	otherRole role = iota
	outputRole
	embeddingRole
	attentionV
	attentionK
	attentionOutput
	ffnDown
)

// roleNames has parts of tensors' names by role: ggml's, then Hugging Face's (gguf-py, tensor_mapping.py). Earlier rows win.
var roleNames = []struct {
	role  role
	names []string
}{
	// Towers that see or hear are no layers of the model: llama.cpp has them in a file of their own. Qwen's w2 is a gate.
	{otherRole, []string{"vision", "visual", "audio", "vpm.", "vit.", "conformer.", "qformer.", "resampler.", "mlp.w2.weight", "linear_attn.out_proj"}},
	{attentionV, []string{
		"attn_qkv.weight", "qkv_proj.weight", "query_key_value.weight", "attn.c_attn.weight", "Wqkv.weight", "wqkv.weight", "attn_kv_b.weight",
		"kv_b_proj.weight", "attn_v.weight", "v_proj.weight", "attention.wv.weight", "attention.self.value.weight",
	}},
	{attentionK, []string{"attn_k.weight", "k_proj.weight", "attention.wk.weight", "attention.self.key.weight"}},
	{attentionOutput, []string{
		"attn_output.weight", "o_proj.weight", "attention.output.dense.weight", "attention.dense.weight", "attn.dense.weight", "attn.out_proj.weight",
		"attn.c_proj.weight", "attention.wo.weight",
	}},
	{ffnDown, []string{
		"ffn_down", "down_proj", ".output.dense.weight", "dense_4h_to_h.weight", "mlp.c_proj.weight", "mlp.fc2.weight", ".w2.weight",
	}},
	{embeddingRole, []string{
		"token_embd.weight", "embed_tokens.weight", "word_embeddings.weight", "wte.weight", "embed_in.weight", "tok_embeddings.weight",
	}},
}

func containsAny(name string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}

func roleOf(name string) role {
	if slices.Contains([]string{"output.weight", "embed_out.weight", "transformer.output_layer.weight"}, name) || strings.HasSuffix("."+name, ".lm_head.weight") {
		return outputRole
	}
	for _, r := range roleNames {
		if containsAny(name, r.names) {
			return r.role
		}
	}
	return otherRole
}

// small has parts of the names of matrices that llama.cpp leaves alone: they are small, and count.
var small = []string{
	"ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight",
	"indexer.k_proj.weight", "indexer.q_proj.weight", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
	"a.rvq.codebook", "mm.a.code_embd",
	"time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight",
	"time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
	"time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight", "attn_rel_b.weight", ".position_embd",
	"position_embd.weight", "token_types.weight", "position_embeddings.weight", "token_type_embeddings.weight",
	"mlp.gate.weight", "block_sparse_moe.gate.weight",
}

// whyLeft returns the reason why llama.cpp leaves a matrix alone, or "". By ggml's names matrices to be quantized end in weight.
func (p *Plan) whyLeft(name string) string {
	switch ggml := p.model.Format() == layout.GGUF || strings.HasPrefix(name, "blk."); {
	case p.resolver == nil && p.Format != layout.GGUF:
	case containsAny(name, small):
		return "small, and left alone by llama.cpp"
	case ggml && !strings.HasSuffix(name, "weight"):
		return "no weight by its name, and left alone by llama.cpp"
	}
	return ""
}

// resolver resolves a recipe to types for the tensors of one model.
type resolver struct {
	name string // of the recipe
	recipe
	arch            string
	layers, experts int
	heads, kvHeads  int
	values, downs   map[string]int // place among the tensors of that role, by layer
	hasOutput       bool
	weighed         bool // by an importance matrix
}

func newResolver(ctx context.Context, p *Plan) (*resolver, error) {
	name := cmp.Or(aliases[p.opts.Recipe], p.opts.Recipe)
	found, ok := recipes[name]
	if !ok {
		return nil, fmt.Errorf("%w: recipe %q; there are %s", layout.ErrUnsupported, p.opts.Recipe, strings.Join(Recipes(), ", "))
	}
	config, err := p.model.Config(ctx)
	if err != nil {
		return nil, err
	}
	number := func(key string) int { return firstInt(config, key) }
	r := &resolver{
		name: name, recipe: found, weighed: len(p.opts.Importance) > 0,
		layers: number("num_hidden_layers"), experts: number("num_local_experts"),
		heads: number("num_attention_heads"), kvHeads: cmp.Or(number("num_key_value_heads"), number("num_attention_heads")),
	}
	r.arch = stringAt(p.Metadata, "model_type")
	names := make(map[role][]string)
	for t := range p.model.Tensors() {
		if whyPrecise(t.Name(), t.Shape()) == "" { // else it is counted among no layers
			role := roleOf(t.Name())
			names[role] = append(names[role], t.Name())
		}
	}
	r.values, r.downs = byLayer(names[attentionV]), byLayer(names[ffnDown])
	r.hasOutput = len(names[outputRole]) > 0
	r.layers = cmp.Or(r.layers, len(names[ffnDown]))
	return r, nil
}

// firstInt returns a number of the configuration, or the first layer's of a list. It is 0 without any.
func firstInt(config *loader.Config, key string) int {
	if n, err := config.Int(key); err == nil {
		return n
	}
	value, _ := config.Value(key)
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice || list.Len() == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fmt.Sprint(list.Index(0)))
	return n
}

var layerNumber = regexp.MustCompile(`(?:^blk|(?:^|\.)(?:layers?|h|block))\.([0-9]{1,6})\.`)

// layerOf returns the number of the layer that a tensor's name has, or -1. The blocks of ggml's encoders, as in enc.blk.0, have none, as
// llama.cpp reads names.
func layerOf(name string) int {
	m := layerNumber.FindStringSubmatch(name)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// byLayer numbers names by the layers in them, and in a layer in order.
func byLayer(names []string) map[string]int {
	layers := make(map[string]int, len(names))
	for _, name := range names {
		layers[name] = layerOf(name)
	}
	places := make(map[string]int, len(names))
	for i, name := range slices.SortedFunc(slices.Values(names), func(a, b string) int { return cmp.Or(cmp.Compare(layers[a], layers[b]), cmp.Compare(a, b)) }) {
		places[name] = i
	}
	return places
}

// resolve returns the type for a tensor.
func (r *resolver) resolve(name string, shape []int) layout.DType {
	role := roleOf(name)
	if role == embeddingRole && !r.hasOutput {
		role = outputRole
	}
	switch {
	case role == outputRole && (r.arch == "falcon" || r.name == "mxfp4_moe" || r.name == "q8_0"):
		return layout.Q8_0
	case role == outputRole:
		return layout.Q6_K
	case r.name == "mxfp4_moe" && r.isExperts(name, shape):
		return r.dtype
	case r.name == "mxfp4_moe":
		return layout.Q8_0
	}
	switch role {
	case attentionV:
		d := r.rule(position{r, role, r.values[name], len(r.values)})
		if r.is70B() && (d == layout.Q3_K || d == layout.Q4_K) {
			d = layout.Q5_K // of 70 billion parameters: eight heads share these
		}
		if r.experts == 8 {
			d = layout.Q8_0
		}
		return d
	case attentionK:
		if r.experts == 8 {
			return layout.Q8_0
		}
	case ffnDown:
		i := r.downs[name]
		if r.experts > 1 { // a layer may have several
			i = layerOf(name)
		}
		return r.rule(position{r, role, i, r.layers})
	}
	return r.rule(position{r, role, 0, 0})
}

// isExperts reports whether a tensor has the matrices of experts on top of each other. In BailingMoE 3 those of attention are so too.
func (r *resolver) isExperts(name string, shape []int) bool {
	n := len(shape)
	return n > 2 && shape[n-3] > 1 && (r.arch != "bailingmoe3" || strings.Contains(name, "ffn_"))
}

// is70B reports whether llama.cpp calls the model one of 70 billion parameters: by architecture and layers.
func (r *resolver) is70B() bool {
	switch r.arch {
	case "llama":
		return r.layers == 80 && r.heads != r.kvHeads
	case "qwen2", "deci", "olmo":
		return r.layers == 80
	case "jais2":
		return r.layers == 68
	}
	return false
}

// position is what rules ask of a tensor: that it is number i of n of its role.
type position struct {
	*resolver
	role role
	i, n int
}

func (p position) always() bool  { return true }
func (p position) early() bool   { return p.i < p.n/8 }
func (p position) first() bool   { return p.i < p.n/16 }
func (p position) falcon() bool  { return p.arch == "falcon" }
func (p position) mixture() bool { return p.experts == 8 }

// more reports whether layer i of n is among the first and last eighths, or a third of the others.
func (p position) more() bool { return p.i < p.n/8 || p.i >= 7*p.n/8 || (p.i-p.n/8)%3 == 2 }

// grouped reports whether four heads or more share keys and values.
func (p position) grouped() bool { return p.kvHeads > 0 && p.heads/p.kvHeads >= 4 }

// rules say which tensors of a role get another type than that of the recipe. The first that holds counts.
var rules = []struct {
	role    role
	recipes string // "" for all
	holds   func(position) bool
	dtype   layout.DType // Invalid for the recipe's
}{
	{attentionV, "q2_k q2_k_s", position.grouped, layout.Q4_K},
	{attentionV, "q2_k", position.always, layout.Q3_K},
	{attentionV, "q3_k_m", func(p position) bool { return p.i < 2 }, layout.Q5_K},
	{attentionV, "q3_k_m", position.always, layout.Q4_K},
	{attentionV, "q3_k_l", position.always, layout.Q5_K},
	{attentionV, "iq4_nl iq4_xs", position.grouped, layout.Q5_K},
	{attentionV, "q4_k_s", func(p position) bool { return p.i < 4 }, layout.Q5_K},
	{attentionV, "q4_k_m q5_k_m", position.more, layout.Q6_K},

	{ffnDown, "q2_k", position.always, layout.Q3_K},
	{ffnDown, "q2_k_s", position.early, layout.Q4_K},
	{ffnDown, "q3_k_m", position.first, layout.Q5_K},
	{ffnDown, "q3_k_m", func(p position) bool { return !p.falcon() || p.more() }, layout.Q4_K},
	{ffnDown, "q3_k_l", position.falcon, layout.Q4_K},
	{ffnDown, "q3_k_l", position.always, layout.Q5_K},
	{ffnDown, "q4_k_m", func(p position) bool { return p.falcon() && p.first() || !p.falcon() && p.more() }, layout.Q6_K},
	{ffnDown, "q4_k_m", position.more, layout.Q5_K},
	{ffnDown, "q5_k_m", position.more, layout.Q6_K},
	{ffnDown, "q4_k_s", func(p position) bool { return !p.falcon() && p.early() }, layout.Q5_K},
	{ffnDown, "iq4_nl iq4_xs", func(p position) bool { return p.early() && !p.weighed }, layout.Q5_K},
	{ffnDown, "q4_0", func(p position) bool { return p.early() && p.weighed }, layout.Q4_1},
	{ffnDown, "q5_0", func(p position) bool { return p.early() && p.weighed }, layout.Q5_1},

	{attentionOutput, "q3_k_l", position.falcon, layout.Q4_K},
	{attentionOutput, "", position.falcon, layout.Invalid},
	{attentionOutput, "q2_k q3_k_s q3_k_m q4_k_s q4_k_m iq4_nl iq4_xs", position.mixture, layout.Q5_K},
	{attentionOutput, "", position.mixture, layout.Invalid},
	{attentionOutput, "q2_k", position.always, layout.Q3_K},
	{attentionOutput, "q3_k_m", position.always, layout.Q4_K},
	{attentionOutput, "q3_k_l", position.always, layout.Q5_K},
}

// rule returns the type that the rules give.
func (r *resolver) rule(p position) layout.DType {
	for _, rule := range rules {
		named := rule.recipes == "" || slices.Contains(strings.Fields(rule.recipes), r.name)
		if rule.role == p.role && named && rule.holds(p) {
			return cmp.Or(rule.dtype, r.dtype)
		}
	}
	return r.dtype
}

// fallbacks are the types of blocks of 32 that llama.cpp takes if rows are no multiple of 256.
var fallbacks = map[layout.DType]layout.DType{
	layout.Q2_K: layout.Q4_0, layout.Q3_K: layout.Q4_0, layout.IQ4_XS: layout.IQ4_NL,
	layout.Q4_K: layout.Q5_0, layout.Q5_K: layout.Q5_1, layout.Q6_K: layout.Q8_0,
}

// typeFor returns the type that a tensor is to be re-encoded to, and why it is not the one asked for.
func (p *Plan) typeFor(t *Tensor) (d layout.DType, fallback string) {
	if p.opts.TypeOf != nil {
		d = p.opts.TypeOf(t.Name)
	}
	switch {
	case d != layout.Invalid:
	case p.resolver != nil:
		d = p.resolver.resolve(t.Name, t.Shape)
	default:
		d = p.opts.DType
	}
	n := d.BlockElems()
	if len(t.Shape) == 0 || t.Shape[len(t.Shape)-1]%n == 0 {
		return d, ""
	}
	row := t.Shape[len(t.Shape)-1]
	why := fmt.Sprintf("rows no multiple of %d, as %v wants", n, d)
	switch instead, ok := fallbacks[d]; {
	case ok && row%32 == 0:
		return instead, why
	case ok:
		return layout.F16, why + ", nor of 32"
	case p.resolver != nil:
		return layout.F16, why
	}
	return d, "" // and it stays
}

// method names how the model is quantized; "" if nothing is re-encoded.
func (p *Plan) method() string {
	switch {
	case p.opts.Recipe != "":
		return strings.ToUpper(p.opts.Recipe)
	case p.opts.DType != layout.Invalid:
		return p.opts.DType.String()
	}
	return ""
}
