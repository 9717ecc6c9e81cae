package convert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// recipes quantize most matrices to one type and some, by their part in the network, to others. The rules are
// llama.cpp's (src/llama-quant.cpp of 007dbbf3, llama_tensor_get_type_impl), under its names.
var recipes = map[string]layout.DType{
	"q4_0": layout.Q4_0, "q4_1": layout.Q4_1, "q5_0": layout.Q5_0, "q5_1": layout.Q5_1, "q8_0": layout.Q8_0,
	"q2_k": layout.Q2_K, "q2_k_s": layout.Q2_K, "q3_k_s": layout.Q3_K, "q3_k_m": layout.Q3_K, "q3_k_l": layout.Q3_K,
	"q4_k_s": layout.Q4_K, "q4_k_m": layout.Q4_K, "q5_k_s": layout.Q5_K, "q5_k_m": layout.Q5_K, "q6_k": layout.Q6_K,
	"iq4_nl": layout.IQ4_NL, "iq4_xs": layout.IQ4_XS, "mxfp4_moe": layout.MXFP4, "q3_k": layout.Q3_K, "q4_k": layout.Q4_K, "q5_k": layout.Q5_K,
}

// aliases are llama.cpp's other names of recipes.
var aliases = map[string]string{"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}

// Recipes returns the names that Options.Recipe takes, in order.
func Recipes() []string { return slices.Sorted(maps.Keys(recipes)) }

// resolver resolves a recipe to types for the tensors of one model.
type resolver struct {
	name                    string       // of the recipe
	dtype                   layout.DType // of most matrices
	arch                    string
	layers, experts         int
	heads, kvHeads          int
	valueNumber, downNumber map[string]int // number among the tensors of role attentionV or ffnDown, in the order of layers
	hasOutput               bool           // the model has an output matrix; else its embeddings serve as output matrix
	hasImportance           bool           // by an importance matrix
}

// newResolver returns the resolver of the recipe called name for the tensors of m. modelType is the model_type in its
// metadata. If m's configuration lacks a number, the resolver has 0, with two exceptions. layers is then the number of down
// projections, and kvHeads is the number of heads. newResolver fails with layout.ErrUnsupported for an unknown recipe. It
// also fails if the configuration cannot be read.
func newResolver(ctx context.Context, m *loader.Model, name, modelType string, hasImportance bool) (*resolver, error) {
	dtype, ok := recipes[name]
	if !ok {
		return nil, fmt.Errorf("%w: recipe %q; there are %s", layout.ErrUnsupported, name, strings.Join(Recipes(), ", "))
	}
	config, err := m.Config(ctx)
	if err != nil {
		return nil, err
	}
	number := func(key string) int { // an integer, or the first of a list with one for each layer; 0 for anything else
		if n, err := config.Int(key); err == nil {
			return n
		}
		if list, err := config.Ints(key); err == nil && len(list) > 0 {
			return list[0]
		}
		return 0
	}
	r := &resolver{
		name: cmp.Or(aliases[name], name), dtype: dtype, arch: modelType, hasImportance: hasImportance,
		layers: number("num_hidden_layers"), experts: number("num_local_experts"),
		heads: number("num_attention_heads"), kvHeads: cmp.Or(number("num_key_value_heads"), number("num_attention_heads")),
	}
	names := make(map[role][]string)
	for t := range m.Tensors() {
		if whyPrecise(t.Name(), t.Shape()) == "" { // llama.cpp does not count norms, biases and the like
			role := roleOf(t.Name())
			names[role] = append(names[role], t.Name())
		}
	}
	r.valueNumber, r.downNumber = positionsByLayer(names[attentionV]), positionsByLayer(names[ffnDown])
	r.hasOutput = len(names[outputRole]) > 0
	r.layers = cmp.Or(r.layers, len(names[ffnDown]))
	return r, nil
}

// positionsByLayer returns the position of each name once names are sorted: by the number of the layer in them, then by name.
// Names without a layer come first.
func positionsByLayer(names []string) map[string]int {
	layers := make(map[string]int, len(names))
	for _, name := range names {
		layers[name] = layerOf(name)
	}
	numbers := make(map[string]int, len(names))
	for i, name := range slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(layers[a], layers[b]), cmp.Compare(a, b))
	}) {
		numbers[name] = i
	}
	return numbers
}

// resolve returns the type that the recipe has for the tensor called name, of the given shape. The first of rules that holds
// decides. If none holds, the type is the recipe's own. Embeddings count as the output matrix if the model has no other. In a
// model of 70 billion parameters, tensors of role attentionV get Q5_K in place of Q3_K and Q4_K.
func (r *resolver) resolve(name string, shape []int) layout.DType {
	p := position{resolver: r, role: roleOf(name)}
	// In BailingMoE 3 attention has several matrices too, so there the name decides.
	n := len(shape)
	p.isOfExperts = n > 2 && shape[n-3] > 1 && (r.arch != "bailingmoe3" || strings.Contains(name, "ffn_"))
	switch p.role {
	case embeddingRole:
		if !r.hasOutput {
			p.role = outputRole
		}
	case attentionV:
		p.index, p.count = r.valueNumber[name], len(r.valueNumber)
	case ffnDown:
		p.index, p.count = r.downNumber[name], r.layers
		if r.experts > 1 { // a layer may have several
			p.index = layerOf(name)
		}
	}
	d := r.dtype
	for _, rule := range rules {
		isOfRole := rule.role == p.role || rule.role == anyRole
		isOfRecipe := rule.recipes == "" || slices.Contains(strings.Fields(rule.recipes), r.name)
		if isOfRole && isOfRecipe && rule.holds(p) {
			d = cmp.Or(rule.dtype, d)
			break
		}
	}
	if p.role == attentionV && r.is70B() && (d == layout.Q3_K || d == layout.Q4_K) {
		return layout.Q5_K // eight heads share these values, and they are small
	}
	return d
}

// is70B reports whether llama.cpp calls the model one of 70 billion parameters: by architecture and layers. A llama of 80
// layers that has as many heads of keys as of queries has 65 billion.
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

// position has what rules ask about a tensor. The tensor is number index, from 0 on, of the count tensors that have its role.
type position struct {
	*resolver
	role         role
	index, count int
	isOfExperts  bool // the tensor has a matrix for each expert
}

// Conditions of rules on a position.
var (
	always        = func(position) bool { return true }
	inFirstEighth = func(p position) bool { return p.index < p.count/8 }
	inFirst16th   = func(p position) bool { return p.index < p.count/16 }
	isFalcon      = func(p position) bool { return p.arch == "falcon" }
	has8Experts   = func(p position) bool { return p.experts == 8 } // as Mixtral 8x7B
	// sharesHeads reports whether four heads or more share keys and values.
	sharesHeads = func(p position) bool { return p.kvHeads > 0 && p.heads/p.kvHeads >= 4 }
	// getsMoreBits is llama.cpp's use_more_bits: the first and last eighth, and every third one behind the first eighth.
	getsMoreBits = func(p position) bool {
		return p.index < p.count/8 || p.index >= 7*p.count/8 || (p.index-p.count/8)%3 == 2
	}
)

// rules say which tensors of a role get another type than the recipe's. The first rule that holds decides.
var rules = []struct {
	role    role
	recipes string // "" for all
	holds   func(position) bool
	dtype   layout.DType // Invalid for the recipe's
}{
	{outputRole, "mxfp4_moe q8_0", always, layout.Q8_0},
	{outputRole, "", isFalcon, layout.Q8_0},
	{outputRole, "", always, layout.Q6_K},
	{anyRole, "mxfp4_moe", func(p position) bool { return !p.isOfExperts }, layout.Q8_0},
	{anyRole, "mxfp4_moe", always, layout.Invalid},

	{attentionV, "", has8Experts, layout.Q8_0},
	{attentionK, "", has8Experts, layout.Q8_0},
	{attentionV, "q2_k q2_k_s", sharesHeads, layout.Q4_K},
	{attentionV, "q2_k", always, layout.Q3_K},
	{attentionV, "q3_k_m", func(p position) bool { return p.index < 2 }, layout.Q5_K},
	{attentionV, "q3_k_m", always, layout.Q4_K},
	{attentionV, "q3_k_l", always, layout.Q5_K},
	{attentionV, "iq4_nl iq4_xs", sharesHeads, layout.Q5_K},
	{attentionV, "q4_k_s", func(p position) bool { return p.index < 4 }, layout.Q5_K},
	{attentionV, "q4_k_m q5_k_m", getsMoreBits, layout.Q6_K},

	{ffnDown, "q2_k", always, layout.Q3_K},
	{ffnDown, "q2_k_s", inFirstEighth, layout.Q4_K},
	{ffnDown, "q3_k_m", inFirst16th, layout.Q5_K},
	{ffnDown, "q3_k_m", func(p position) bool { return !isFalcon(p) || getsMoreBits(p) }, layout.Q4_K},
	{ffnDown, "q3_k_l", isFalcon, layout.Q4_K},
	{ffnDown, "q3_k_l", always, layout.Q5_K},
	{ffnDown, "q4_k_m", func(p position) bool { return isFalcon(p) && inFirst16th(p) || !isFalcon(p) && getsMoreBits(p) }, layout.Q6_K},
	{ffnDown, "q4_k_m", getsMoreBits, layout.Q5_K},
	{ffnDown, "q5_k_m", getsMoreBits, layout.Q6_K},
	{ffnDown, "q4_k_s", func(p position) bool { return !isFalcon(p) && inFirstEighth(p) }, layout.Q5_K},
	{ffnDown, "iq4_nl iq4_xs", func(p position) bool { return inFirstEighth(p) && !p.hasImportance }, layout.Q5_K},
	{ffnDown, "q4_0", func(p position) bool { return inFirstEighth(p) && p.hasImportance }, layout.Q4_1},
	{ffnDown, "q5_0", func(p position) bool { return inFirstEighth(p) && p.hasImportance }, layout.Q5_1},

	{attentionOutput, "q3_k_l", isFalcon, layout.Q4_K},
	{attentionOutput, "", isFalcon, layout.Invalid},
	{attentionOutput, "q2_k q3_k_s q3_k_m q4_k_s q4_k_m iq4_nl iq4_xs", has8Experts, layout.Q5_K},
	{attentionOutput, "", has8Experts, layout.Invalid},
	{attentionOutput, "q2_k", always, layout.Q3_K},
	{attentionOutput, "q3_k_m", always, layout.Q4_K},
	{attentionOutput, "q3_k_l", always, layout.Q5_K},
}
