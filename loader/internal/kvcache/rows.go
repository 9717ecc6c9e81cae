package kvcache

import (
	"slices"
)

// setRows sets how many values of a token each layer with attention keeps. Where the configuration lacks a number of heads, the
// shapes of the layer's tensors tell, or else Unknown says so.
func (q *questions) setRows(shapes func(layer int) Shapes) {
	if rank, ok := q.int("kv_lora_rank", "*.attention.kv_lora_rank"); ok && rank > 0 {
		q.setCompressed(rank)
		return
	}
	slides := slices.ContainsFunc(q.plan.Layers, func(l Layer) bool { return l.Kind == Window })
	lack, odd := noted{}, noted{}
	for i := range q.plan.Layers {
		l := &q.plan.Layers[i]
		if !l.Kind.caches() {
			continue
		}
		s := shapes(i)
		keys, values, ok := q.widths(i, l.Kind, slides)
		if !ok {
			keys, values, ok = q.fromShapes(i, s)
		} else if s.Keys > 0 && s.Keys != keys {
			odd.note(i, keys, s.Keys)
		}
		if !ok {
			lack.note(i, 0, 0)
			continue
		}
		l.Rows = []int{keys, values}
	}
	if lack.n > 0 {
		q.unknown("kv_bytes_per_token", "neither the configuration nor the shapes of tensors tell how many keys and values layer %d keeps; such layers: %d", lack.first, lack.n)
	}
	if odd.n > 0 {
		q.unknown("kv_bytes_per_token", "the configuration gives layer %d keys of %d values, and its tensor has %d rows; such layers: %d", odd.first, odd.says, odd.has, odd.n)
	}
}

// noted counts layers, and remembers the first.
type noted struct{ n, first, says, has int }

func (n *noted) note(layer, says, has int) {
	if n.n++; n.n == 1 {
		n.first, n.says, n.has = layer, says, has
	}
}

// setCompressed sets the cache of each layer with attention to one row of rank + rope values: multi-head latent
// attention (MLA) keeps the compressed keys and values, and beside them the part of the keys that has the position. It
// notes sizes that the configuration does not tell as unknown.
func (q *questions) setCompressed(rank int) {
	rope, ok := q.int("qk_rope_head_dim", "*.rope.dimension_count")
	if !ok {
		q.unknown("kv_bytes_per_token", "the configuration has kv_lora_rank and no qk_rope_head_dim")
		return
	}
	for i := range q.plan.Layers {
		if l := &q.plan.Layers[i]; l.Kind.caches() {
			l.Rows = []int{rank + rope}
			if q.arch == "longcat_flash" { // two attentions in a layer
				l.Rows = append(l.Rows, rank+rope)
			}
		}
	}
	if n, ok := q.int("*.attention.head_count_kv"); ok && n > 1 && !q.has("*.attention.key_length_mla") {
		q.unknown("kv_bytes_per_token", "the file is older than compressed rows in llama.cpp, which keeps keys and values of %d heads for it", n)
	}
	if n, ok := q.int("index_head_dim", "*.attention.indexer.key_length"); ok && n > 0 {
		q.unknown("kv_bytes_per_token", "sparse attention keeps %d values more of each token and layer for its index, in a type of the program's own", n)
	}
}

// widths returns the values of keys and of values that layer i keeps of a token, by the configuration. slides is true if other layers
// have a window: then some models give those with and those without heads of their own. ok is false if a number is missing.
func (q *questions) widths(i int, k Kind, slides bool) (keys, values int, ok bool) {
	heads, ok := q.heads(i, k, slides)
	if !ok {
		return 0, 0, false
	}
	var own [2][]string // names for layers of this kind only
	switch {
	case k == Window:
		own = [2][]string{{"swa_head_dim", "*.attention.key_length_swa"}, {"swa_v_head_dim", "*.attention.value_length_swa"}}
	case slides:
		own = [2][]string{{"global_head_dim"}, {"global_head_dim"}}
	}
	key, ok := q.ofLayer(i, append(own[0], "head_dim", "attention_head_dim", "kv_channels")...)
	if !ok {
		return 0, 0, false
	}
	value, ok := q.ofLayer(i, append(own[1], "v_head_dim", "*.attention.value_length")...)
	if !ok {
		value = key
	}
	return product(heads, key), product(heads, value), true
}

// product returns a times b, at most the greatest number that a configuration may have.
func product(a, b int) int { return int(min(Mul(uint64(a), uint64(b)), most)) }

// heads returns how many heads of keys layer i has. ok is false if the configuration does not say it.
func (q *questions) heads(i int, k Kind, slides bool) (n int, ok bool) {
	names := []string{"num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num"}
	switch {
	case k == Window:
		names = append([]string{"swa_num_key_value_heads"}, names...)
	case slides:
		names = append([]string{"num_global_key_value_heads"}, names...)
	}
	if q.yes("multi_query") && !q.yes("new_decoder_architecture") {
		return 1, true
	}
	if n, ok = q.ofLayer(i, names...); ok {
		return n, true
	}
	if o, found := q.object("attn_config"); found {
		if n, ok = o.int("kv_n_heads"); ok {
			return n, true
		}
	}
	if q.has("*.attention.head_count") && !q.has("*.attention.head_count_kv") { // GGUF's rule
		return q.ofLayer(i, "num_attention_heads")
	}
	return 0, false
}

// ofLayer returns the number of layer i: under the first of the names that has one for all layers, or a list with one for each.
func (q *questions) ofLayer(i int, names ...string) (n int, ok bool) {
	for _, name := range names {
		if n, ok = q.int(name); ok {
			return n, true
		}
		if list := q.ints(name); i < len(list) {
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

// fromShapes returns the values of keys and values by the rows of layer i's matrices. If queries are in the same matrix,
// their rows are taken off. ok is false if there is no such matrix. If only the size of a head is missing it is hidden_size /
// num_attention_heads, as both formats define it.
func (q *questions) fromShapes(i int, s Shapes) (keys, values int, ok bool) {
	if s.Keys > 0 {
		if s.Values == 0 {
			s.Values = s.Keys
		}
		return s.Keys, s.Values, true
	}
	heads, ok := q.ofLayer(i, "num_attention_heads")
	hidden, ok2 := q.int("hidden_size")
	if !ok || !ok2 || heads == 0 {
		return 0, 0, false
	}
	size, ok := q.ofLayer(i, "head_dim", "attention_head_dim", "kv_channels")
	if !ok && slices.Contains(ownHeadSizes, q.arch) {
		return 0, 0, false
	}
	if !ok {
		size = hidden / heads
	}
	if kv, ok := q.heads(i, Attention, false); ok {
		return product(kv, size), product(kv, size), true
	}
	rest := s.Fused - product(heads, size)
	return rest / 2, rest / 2, rest > 0 && rest%2 == 0
}
