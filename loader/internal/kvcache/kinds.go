package kvcache

import (
	"slices"
	"strings"
)

// words are the names of kinds in lists with one for each layer, such as layer_types.
var kindByWord = map[string]Kind{
	"full_attention": Attention, "attention": Attention, "attn": Attention, "global": Attention, "global_attention": Attention, "full": Attention,
	"sliding_attention": Window, "sliding_window_attention": Window, "chunked_attention": Window, "local": Window, "local_attention": Window,
	"linear_attention": Recurrent, "mamba": Recurrent, "mamba2": Recurrent, "recurrent": Recurrent, "conv": Recurrent, "ssm": Recurrent,
	"hybrid": Both, "mlp": Nothing, "moe": Nothing,
	// hybrid_override_pattern has letters.
	"M": Recurrent, "*": Attention, "-": Nothing, "E": Nothing,
	// So has sliding_window_pattern.
	"L": Window, "G": Attention,
}

// encoders are model types that see all tokens at once and keep none.
var encoders = []string{
	"albert", "bert", "camembert", "clip", "deberta", "deberta-v2", "dinov2", "distilbert", "electra", "jina-bert-v2", "layoutlm", "modern-bert",
	"modernbert", "mpnet", "new", "nomic-bert", "nomic_bert", "roberta", "siglip", "vit", "xlm-roberta",
}

// recurrentTypes are model types without attention.
var recurrentTypes = []string{"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"}

// setKinds sets the kind of each layer. Configurations have several ways to say it; the first that is found counts. If none is, all
// layers have attention.
func (p *planner) setKinds() {
	layers := p.plan.Layers
	switch {
	case p.isTrue("is_encoder_decoder"):
		p.setAllKinds(Unclear)
		p.addUnknown("kv_bytes", "models of an encoder and a decoder keep the encoder's output too, whose length depends on the input")
		return
	case p.has("compress_ratios", "*.attention.compress_ratios"):
		p.setAllKinds(Unclear)
		p.addUnknown("kv_bytes", "the layers keep compressed rows of several tokens (compress_ratios), in an order of the program's own")
		return
	case p.isFalse("*.attention.causal"), slices.Contains(encoders, p.arch) && !p.isTrue("is_decoder"):
		p.setAllKinds(Nothing)
		return
	case slices.Contains(recurrentTypes, p.arch):
		p.setAllKinds(Recurrent)
	case p.arch == "falcon_h1", p.arch == "falcon-h1":
		p.setAllKinds(Both)
	case !p.setKindsByList() && !p.setKindsByIndexes() && !p.setKindsByPeriod() && !p.setKindsByHeads():
		p.setAllKinds(Attention)
		p.assumesAttention = true
	}
	if cross := p.ints("cross_attention_layers", "*.attention.cross_attention_layers"); len(cross) > 0 {
		for i := range layers {
			if slices.Contains(cross, i) {
				layers[i].Kind = Cross
			}
		}
		p.addUnknown("kv_bytes", "layers of cross-attention (%d) keep what belongs to images or sound, whose number depends on the input", len(cross))
	}
	if n, ok := p.int("*.nextn_predict_layers"); ok {
		for i := max(0, len(layers)-n); i < len(layers); i++ {
			layers[i].Kind = Draft
		}
	}
}

// setAllKinds gives all layers the kind k.
func (p *planner) setAllKinds(k Kind) {
	for i := range p.plan.Layers {
		p.plan.Layers[i].Kind = k
	}
}

// setKindsByList sets kinds from a list of names or a string of letters. It reports false if the configuration has none.
func (p *planner) setKindsByList() bool {
	for _, name := range []string{"layer_types", "layers_block_type", "hybrid_override_pattern", "_block_types", "block_types"} {
		list, ok := ask[[]string](p, name)
		if letters, isString := ask[string](p, name); !ok && isString {
			list = strings.Split(letters, "")
		}
		if len(list) == 0 {
			continue
		}
		repeats := strings.HasSuffix(name, "block_types") // it is a pattern, and not a list of all layers
		if !repeats {
			p.checkLength(name, len(list))
		}
		p.setKindsByWords(name, list, repeats)
		return true
	}
	return false
}

// checkLength notes, if the list under name has another length n than the model has layers, that it does.
func (p *planner) checkLength(name string, n int) {
	if n != len(p.plan.Layers) {
		p.addUnknown("kv_bytes", "%s has a length of %d, and num_hidden_layers is %d", name, n, len(p.plan.Layers))
	}
}

// setKindsByWords sets the kind of each layer from its word in list. If list is too short it begins again when repeats is true, else
// the last layers are unclear. Layers with an unknown word are unclear, and the word is noted.
func (p *planner) setKindsByWords(name string, list []string, repeats bool) {
	strange := make(map[string]bool)
	for i := range p.plan.Layers {
		l := &p.plan.Layers[i]
		l.Kind = Unclear
		if i >= len(list) && !repeats {
			continue
		}
		word := list[i%len(list)]
		if k, ok := kindByWord[word]; ok {
			l.Kind = k
		} else if !strange[word] && len(strange) < 8 {
			strange[word] = true
			p.addUnknown("kv_bytes", "%s has %.40q, and what such layers keep is not known", name, word)
		}
	}
	if name == "_block_types" || name == "block_types" { // RecurrentGemma's attention is local
		for i := range p.plan.Layers {
			if l := &p.plan.Layers[i]; l.Kind == Attention && p.has("attention_window_size") {
				l.Kind = Window
			}
		}
	}
}

// setKindsByIndexes sets kinds from a list of the positions of layers with attention; all others are recurrent. It reports false if the
// configuration has no such list.
func (p *planner) setKindsByIndexes() bool {
	first := 0
	list := p.ints("attn_layer_indices", "full_attn_idxs")
	if o, ok := p.object("linear_attn_config"); ok && list == nil {
		list, first = o.ints("full_attn_layers"), 1
	}
	if kinds := p.ints("attn_type_list"); kinds != nil && list == nil {
		list = []int{}
		for i, k := range kinds {
			if k != 0 {
				list = append(list, i)
			}
		}
	}
	if list == nil {
		return false
	}
	p.setAllKinds(Recurrent)
	for _, i := range list {
		if i -= first; i >= 0 && i < len(p.plan.Layers) {
			p.plan.Layers[i].Kind = Attention
		}
	}
	return true
}

// setKindsByPeriod gives one layer of every period attention and makes the others recurrent. It reports false if the configuration has
// no period.
func (p *planner) setKindsByPeriod() bool {
	period, ok := p.int("attn_layer_period")
	offset, _ := p.int("attn_layer_offset")
	if !ok {
		if period, ok = p.int("full_attention_interval", "*.full_attention_interval"); !ok && strings.HasPrefix(p.arch, "qwen3next") {
			period, ok = 4, true // what llama.cpp takes
		}
		offset = period - 1
	}
	if !ok || period == 0 {
		return false
	}
	for i := range p.plan.Layers {
		p.plan.Layers[i].Kind = Recurrent
		if i%period == offset {
			p.plan.Layers[i].Kind = Attention
		}
	}
	return true
}

// setKindsByHeads sets kinds from a list of the number of heads of each layer: a layer with 0 heads has no attention. It reports
// false if there is no such list with a 0.
func (p *planner) setKindsByHeads() bool {
	heads := p.ints("num_key_value_heads", "num_kv_heads")
	if !slices.Contains(heads, 0) {
		return false
	}
	p.checkLength("num_key_value_heads", len(heads))
	hasState := p.has("*.ssm.inner_size", "*.shortconv.l_cache", "*.wkv.head_size", "*.kda.head_dim")
	forwardSizes := p.ints("*.feed_forward_length")
	for i := range p.plan.Layers {
		l := &p.plan.Layers[i]
		switch {
		case i >= len(heads):
			l.Kind = Unclear
		case heads[i] > 0:
			l.Kind = Attention
		case hasState && !(strings.HasPrefix(p.arch, "nemotron_h") && i < len(forwardSizes) && forwardSizes[i] > 0):
			l.Kind = Recurrent
		default:
			l.Kind = Nothing
		}
	}
	return true
}

// fullEveryNth has, by model type, n: every n-th layer has no window. 0 means that all layers have one. It serves configurations
// that do not say which layers have a window.
var fullEveryNth = map[string]int{
	"mistral": 0, "mixtral": 0, "starcoder2": 0, "phi3": 0, "phimoe": 0,
	"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma3n": 5, "gemma3n_text": 5, "cohere2": 4, "gpt_oss": 2, "gpt-oss": 2,
	"exaone4": 4, "olmo3": 4, "llama4": 4, "llama4_text": 4,
}

// setWindows finds the layers that attend to a sliding window of tokens, and sets the number of tokens. Layers whose window is not
// known are noted, and count as keeping all tokens.
func (p *planner) setWindows() {
	window, ok := p.int("sliding_window", "attention_window_size", "attention_chunk_size", "*.attention.chunk_size")
	if p.isFalse("use_sliding_window") {
		window, ok = 0, false
	}
	layers := p.plan.Layers
	isWindow := func(l Layer) bool { return l.Kind == Window }
	switch nth := fullEveryNth[p.arch]; {
	case slices.ContainsFunc(layers, isWindow):
	case ok && window > 0:
		p.setSliding()
	case nth > 0 && p.arch != "exaone4" && !p.has("layer_types"): // some of EXAONE's have no window
		p.addUnknown("kv_bytes", "layers of %s slide, and the configuration does not say over how many tokens: they are counted with all", p.arch)
	}
	missing := 0
	for i := range layers {
		if l := &layers[i]; l.Kind == Window {
			if l.Window = window; window == 0 {
				missing++
			}
		}
	}
	if missing > 0 {
		p.addUnknown("kv_bytes", "layers slide (%d), and the configuration does not say over how many tokens: they are counted with all", missing)
	}
}

// setSliding sets the kind Window for some of the layers with attention: those that a pattern in the configuration names, or else those
// that the model's type is known to have.
func (p *planner) setSliding() {
	if p.has("layer_types", "layers_block_type") {
		return // these lists would name layers with a window, and have none
	}
	isFull := func(i int) bool { return true }
	flags := p.flags("*.attention.sliding_window_pattern", "sliding_window_pattern", "hybrid_layer_pattern")
	if flags != nil {
		p.checkLength("the list of layers that slide", len(flags))
	}
	letters, _ := ask[string](p, "sliding_window_pattern")
	nth, ok := p.int("sliding_window_pattern", "_sliding_window_pattern", "*.attention.sliding_window_pattern", "no_rope_layer_interval")
	first, partial := p.int("max_window_layers")
	if !ok && !p.isTrue("use_sliding_window") {
		nth, ok = fullEveryNth[p.arch]
	}
	switch {
	case flags != nil:
		isFull = func(i int) bool { return i >= len(flags) || !flags[i] }
	case letters != "" && strings.Trim(letters, "LG") == "":
		isFull = func(i int) bool { return letters[i%len(letters)] == 'G' }
	case ok:
		isFull = func(i int) bool { return nth > 0 && (i+1)%nth == 0 }
	case partial && p.isTrue("use_sliding_window"):
		isFull = func(i int) bool { return i < first }
	default:
		p.addUnknown("kv_bytes", "there is a sliding window, and the configuration does not say which layers have it: they are counted with all tokens")
	}
	for i := range p.plan.Layers {
		if l := &p.plan.Layers[i]; l.Kind == Attention && !isFull(i) {
			l.Kind = Window
		}
	}
}

// flags returns the first list under one of the names that has truth values, or numbers that stand for them. It returns nil if there
// is none.
func (p *planner) flags(names ...string) (flags []bool) {
	for _, name := range names {
		if flags, ok := ask[[]bool](p, name); ok && len(flags) > 0 {
			return flags
		}
		if numbers, ok := ask[[]int](p, name); ok && len(numbers) > 0 {
			for _, n := range numbers {
				flags = append(flags, n != 0)
			}
			return flags
		}
	}
	return nil
}

// setShared marks as Shared the last layers if they use the keys and values of earlier layers. The configuration says how many do.
func (p *planner) setShared() {
	n, _ := p.int("num_kv_shared_layers", "*.attention.shared_kv_layers")
	layers := p.plan.Layers
	for i := max(0, len(layers)-n); i < len(layers); i++ {
		if layers[i].Kind.caches() {
			layers[i].Kind = Shared
		}
	}
}
