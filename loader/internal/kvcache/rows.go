package kvcache

import (
	"cmp"
	"fmt"
	"slices"
)

// setRows sets how many values of a token each layer with attention keeps. It takes the numbers from the configuration, or else from the
// layer's tensors, whose shapes the function shapes returns. It notes as unknown how many layers have no number. It also notes for how
// many layers the tensors contradict the configuration.
func (p *planner) setRows(shapes func(layer int) Shapes) {
	if rank, ok := p.int("kv_lora_rank", "*.attention.kv_lora_rank"); ok && rank > 0 {
		p.setCompressed(rank)
		return
	}
	anyWindow := p.anyWindow()
	var missing, differing []string // what is wrong, one text for each such layer
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
			differing = append(differing, fmt.Sprintf("layer %d keys of %d values, and its tensor has %d rows", i, keys, s.Keys))
		}
		if ok {
			l.Rows = []int{keys, values}
		} else {
			missing = append(missing, fmt.Sprintf("layer %d", i))
		}
	}
	if len(missing) > 0 {
		p.addUnknown("kv_bytes_per_token", "neither the configuration nor the shapes of tensors tell how many keys and values %s keeps; such layers: %d", missing[0], len(missing))
	}
	if len(differing) > 0 {
		p.addUnknown("kv_bytes_per_token", "the configuration gives %s; such layers: %d", differing[0], len(differing))
	}
}

// setCompressed sets the rows of layers with multi-head latent attention (MLA): one row of rank + rope values for each attention. The rank
// values are keys and values compressed together, and the rope values are the part of the keys that has the position. setCompressed notes
// as unknown what else programs keep, and a configuration without the number rope.
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
	n, ok := p.int("*.attention.head_count_kv")
	if ok && n > 1 && !p.has("*.attention.key_length_mla") { // newer files have one head, and this length
		p.addUnknown("kv_bytes_per_token", "the file is older than compressed rows in llama.cpp, which keeps keys and values of %d heads for it", n)
	}
	if n, ok := p.int("index_head_dim", "*.attention.indexer.key_length"); ok && n > 0 {
		p.addUnknown("kv_bytes_per_token", "sparse attention keeps %d values more of each token and layer for its index, in a type of the program's own", n)
	}
}

// keyValueSizes returns how many numbers the keys of a token have in layer i, and how many its values have, by the configuration. k is the
// layer's kind. anyWindow says that some layer of the model has a window: layers without a window may then have other sizes. If the
// configuration has no size for a value, a value is as large as a key. ok is false if the number of heads or the size of a key is missing.
func (p *planner) keyValueSizes(i int, k Kind, anyWindow bool) (keys, values int, ok bool) {
	heads, ok := p.heads(i, k, anyWindow)
	if !ok {
		return 0, 0, false
	}
	var keyNames, valueNames []string // names for layers of this kind come first
	switch {
	case k == Window:
		keyNames = []string{"swa_head_dim", "*.attention.key_length_swa"}
		valueNames = []string{"swa_v_head_dim", "*.attention.value_length_swa"}
	case anyWindow:
		keyNames, valueNames = []string{"global_head_dim"}, []string{"global_head_dim"}
	}
	keySize, ok := p.headSize(i, keyNames...)
	valueSize, hasValueSize := p.intOfLayer(i, append(valueNames, "v_head_dim", "*.attention.value_length")...)
	if !hasValueSize {
		valueSize = keySize
	}
	return cappedProduct(heads, keySize), cappedProduct(heads, valueSize), ok
}

// headSize returns how many numbers a key of one head has in layer i. It looks under the given names first, and then under the names that
// serve all layers. ok is false if no name has a number.
func (p *planner) headSize(i int, names ...string) (n int, ok bool) {
	return p.intOfLayer(i, append(names, "head_dim", "attention_head_dim", "kv_channels")...)
}

// cappedProduct returns a times b, but at most maxNumber. Neither is negative.
func cappedProduct(a, b int) int { return int(min(Mul(a, b), maxNumber)) }

// heads returns how many heads of keys layer i has. k is the layer's kind. anyWindow says that some layer of the model has a window: layers
// without a window may then have another number. ok is false if the configuration has no number.
func (p *planner) heads(i int, k Kind, anyWindow bool) (n int, ok bool) {
	names := []string{"num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num"}
	switch {
	case k == Window:
		names = append([]string{"swa_num_key_value_heads"}, names...)
	case anyWindow:
		names = append([]string{"num_global_key_value_heads"}, names...)
	}
	if p.says(true, "multi_query") && !p.says(true, "new_decoder_architecture") { // Falcon-7B and GPTBigCode: one head of keys serves all queries
		return 1, true
	}
	if n, ok = p.intOfLayer(i, names...); ok {
		return n, true
	}
	if n, ok = p.int("attn_config/kv_n_heads"); ok {
		return n, true
	}
	if p.has("*.attention.head_count") && !p.has("*.attention.head_count_kv") { // GGUF: the two numbers are then equal
		return p.intOfLayer(i, "num_attention_heads")
	}
	return 0, false
}

// intOfLayer returns the number for layer i under the first of the names that has one. A name has one number for all layers, or a list
// with a number for each. ok is false if no name has a number for the layer.
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

// ownHeadSizes are model types whose classes in transformers have a size of heads of their own: 256, 128 or 64. They use it if config.json
// has no head_dim. Other classes then use hidden_size / num_attention_heads.
var ownHeadSizes = []string{
	"gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "glm4", "gpt_oss", "qwen3", "qwen3_next", "seed_oss",
}

// sizesFromShapes returns how many numbers the keys of a token have in layer i, and how many its values have. If s has the rows of a matrix
// of keys, they are these rows, and the rows of the matrix of values. Without a matrix of values, values have as many numbers as keys.
// If s has no rows of keys, both are the number of heads times the size of a head. If the number of heads of keys is missing too, both come
// from the fused matrix: half of its rows that are not of queries. ok is false if other numbers are missing, or if these rows cannot be
// halved.
func (p *planner) sizesFromShapes(i int, s Shapes) (keys, values int, ok bool) {
	if s.Keys > 0 {
		return s.Keys, cmp.Or(s.Values, s.Keys), true
	}
	queryHeads, hasHeads := p.intOfLayer(i, "num_attention_heads")
	hidden, hasHidden := p.int("hidden_size")
	headSize, hasSize := p.headSize(i)
	if !hasHeads || !hasHidden || queryHeads == 0 || !hasSize && slices.Contains(ownHeadSizes, p.arch) {
		return 0, 0, false
	}
	if !hasSize {
		headSize = hidden / queryHeads // as transformers and GGUF define it
	}
	const anyWindow = false // names for layers of one kind are left out
	if heads, ok := p.heads(i, Attention, anyWindow); ok {
		return cappedProduct(heads, headSize), cappedProduct(heads, headSize), true
	}
	rest := s.Fused - cappedProduct(queryHeads, headSize) // the rows of keys and values together
	return rest / 2, rest / 2, rest > 0 && rest%2 == 0
}
