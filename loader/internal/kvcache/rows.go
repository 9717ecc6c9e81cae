package kvcache

import (
	"slices"
)

// setRows sets how many values of a token each layer with attention keeps. If the configuration lacks a number of heads, it takes the
// shapes of the layer's tensors. Layers for which neither tells, or both disagree, are noted as unknown.
func (p *planner) setRows(shapes func(layer int) Shapes) {
	if rank, ok := p.int("kv_lora_rank", "*.attention.kv_lora_rank"); ok && rank > 0 {
		p.setCompressed(rank)
		return
	}
	anyWindow := slices.ContainsFunc(p.plan.Layers, func(l Layer) bool { return l.Kind == Window })
	missing, differing := layerNote{}, layerNote{}
	for i := range p.plan.Layers {
		l := &p.plan.Layers[i]
		if !l.Kind.caches() {
			continue
		}
		s := shapes(i)
		keys, values, ok := p.keyValueSizes(i, l.Kind, anyWindow)
		if !ok {
			keys, values, ok = p.sizesFromShapes(i, s)
		} else if s.Keys > 0 && s.Keys != keys {
			differing.add(i, keys, s.Keys)
		}
		if !ok {
			missing.add(i, 0, 0)
			continue
		}
		l.Rows = []int{keys, values}
	}
	if missing.count > 0 {
		p.addUnknown("kv_bytes_per_token", "neither the configuration nor the shapes of tensors tell how many keys and values layer %d keeps; such layers: %d", missing.firstLayer, missing.count)
	}
	if differing.count > 0 {
		p.addUnknown("kv_bytes_per_token", "the configuration gives layer %d keys of %d values, and its tensor has %d rows; such layers: %d", differing.firstLayer, differing.configured, differing.actual, differing.count)
	}
}

// layerNote counts layers with a problem, and has the two numbers of the first that do not agree.
type layerNote struct{ count, firstLayer, configured, actual int }

// add counts a layer. If it is the first it keeps both numbers.
func (n *layerNote) add(layer, says, has int) {
	if n.count++; n.count == 1 {
		n.firstLayer, n.configured, n.actual = layer, says, has
	}
}

// setCompressed sets the cache of each layer with attention to one row of rank + rope values: multi-head latent
// attention (MLA) keeps the compressed keys and values, and beside them the part of the keys that has the position. It
// notes sizes that the configuration does not tell as unknown.
func (p *planner) setCompressed(rank int) {
	rope, ok := p.int("qk_rope_head_dim", "*.rope.dimension_count")
	if !ok {
		p.addUnknown("kv_bytes_per_token", "the configuration has kv_lora_rank and no qk_rope_head_dim")
		return
	}
	for i := range p.plan.Layers {
		if l := &p.plan.Layers[i]; l.Kind.caches() {
			l.Rows = []int{rank + rope}
			if p.arch == "longcat_flash" { // two attentions in a layer
				l.Rows = append(l.Rows, rank+rope)
			}
		}
	}
	if n, ok := p.int("*.attention.head_count_kv"); ok && n > 1 && !p.has("*.attention.key_length_mla") {
		p.addUnknown("kv_bytes_per_token", "the file is older than compressed rows in llama.cpp, which keeps keys and values of %d heads for it", n)
	}
	if n, ok := p.int("index_head_dim", "*.attention.indexer.key_length"); ok && n > 0 {
		p.addUnknown("kv_bytes_per_token", "sparse attention keeps %d values more of each token and layer for its index, in a type of the program's own", n)
	}
}

// keyValueSizes returns how many numbers the keys and the values of a token have in layer i of kind k, by the configuration. anyWindow
// says that a layer of the model has a window: layers without one may then have other heads. ok is false if a number is missing.
func (p *planner) keyValueSizes(i int, k Kind, anyWindow bool) (keys, values int, ok bool) {
	heads, ok := p.heads(i, k, anyWindow)
	if !ok {
		return 0, 0, false
	}
	var namesOfKind [2][]string // names for layers of this kind only
	switch {
	case k == Window:
		namesOfKind = [2][]string{{"swa_head_dim", "*.attention.key_length_swa"}, {"swa_v_head_dim", "*.attention.value_length_swa"}}
	case anyWindow:
		namesOfKind = [2][]string{{"global_head_dim"}, {"global_head_dim"}}
	}
	key, ok := p.intOfLayer(i, append(namesOfKind[0], "head_dim", "attention_head_dim", "kv_channels")...)
	if !ok {
		return 0, 0, false
	}
	value, ok := p.intOfLayer(i, append(namesOfKind[1], "v_head_dim", "*.attention.value_length")...)
	if !ok {
		value = key
	}
	return cappedProduct(heads, key), cappedProduct(heads, value), true
}

// cappedProduct returns a times b, but at most maxNumber.
func cappedProduct(a, b int) int { return int(min(Mul(uint64(a), uint64(b)), maxNumber)) }

// heads returns how many heads of keys layer i has, which is of kind k. anyWindow says that a layer of the model has a window. ok is
// false if the configuration does not tell.
func (p *planner) heads(i int, k Kind, anyWindow bool) (n int, ok bool) {
	names := []string{"num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num"}
	switch {
	case k == Window:
		names = append([]string{"swa_num_key_value_heads"}, names...)
	case anyWindow:
		names = append([]string{"num_global_key_value_heads"}, names...)
	}
	if p.isTrue("multi_query") && !p.isTrue("new_decoder_architecture") {
		return 1, true
	}
	if n, ok = p.intOfLayer(i, names...); ok {
		return n, true
	}
	if o, found := p.object("attn_config"); found {
		if n, ok = o.int("kv_n_heads"); ok {
			return n, true
		}
	}
	if p.has("*.attention.head_count") && !p.has("*.attention.head_count_kv") { // GGUF's rule
		return p.intOfLayer(i, "num_attention_heads")
	}
	return 0, false
}

// intOfLayer returns the number of layer i under the first of the names that has one. A name has one number for all layers, or a list
// with a number for each. ok is false if no name has one.
func (p *planner) intOfLayer(i int, names ...string) (n int, ok bool) {
	for _, name := range names {
		if n, ok = p.int(name); ok {
			return n, true
		}
		if list := p.ints(name); i < len(list) {
			return list[i], true
		}
	}
	return 0, false
}

// ownHeadSizes are model types whose classes in transformers have a size of heads of their own where config.json has no head_dim: 256,
// 128 or 64, and not hidden_size / num_attention_heads.
var ownHeadSizes = []string{
	"gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "glm4", "gpt_oss", "qwen3", "qwen3_next", "seed_oss",
}

// sizesFromShapes returns how many numbers the keys and the values of a token have in layer i: the rows of its matrices, without those
// of queries. If the configuration lacks only the size of a head, that is hidden_size / num_attention_heads, as both formats define
// it. ok is false if neither tells.
func (p *planner) sizesFromShapes(i int, s Shapes) (keys, values int, ok bool) {
	if s.Keys > 0 {
		if s.Values == 0 {
			s.Values = s.Keys
		}
		return s.Keys, s.Values, true
	}
	heads, ok := p.intOfLayer(i, "num_attention_heads")
	hidden, ok2 := p.int("hidden_size")
	if !ok || !ok2 || heads == 0 {
		return 0, 0, false
	}
	size, ok := p.intOfLayer(i, "head_dim", "attention_head_dim", "kv_channels")
	if !ok && slices.Contains(ownHeadSizes, p.arch) {
		return 0, 0, false
	}
	if !ok {
		size = hidden / heads
	}
	if kv, ok := p.heads(i, Attention, false); ok {
		return cappedProduct(kv, size), cappedProduct(kv, size), true
	}
	rest := s.Fused - cappedProduct(heads, size)
	return rest / 2, rest / 2, rest > 0 && rest%2 == 0
}
