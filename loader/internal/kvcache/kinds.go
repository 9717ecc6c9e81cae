package kvcache

import (
	"slices"
	"strings"
)

// kindByWord has the kind for each word that lists with a word for each layer use, such as layer_types.
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

// kindByType has the kind of all layers for model types whose layers are alike and not only attention.
var kindByType = map[string]Kind{
	"mamba": Recurrent, "mamba2": Recurrent, "falcon_mamba": Recurrent, "rwkv": Recurrent, "rwkv6": Recurrent, "rwkv7": Recurrent,
	"rwkv6qwen2": Recurrent, "arwkv7": Recurrent, "falcon_h1": Both, "falcon-h1": Both,
}

// setKinds sets the kind of each layer: by the model's type, or else by the first of several keys that the configuration has. It notes as
// unknown what layers keep beyond keys, values and states.
func (p *planner) setKinds() {
	switch {
	case p.says(true, "is_encoder_decoder"):
		p.setEachKind(always(Unclear))
		p.addUnknown("kv_bytes", "models of an encoder and a decoder keep the encoder's output too, whose length depends on the input")
		return
	case p.has("compress_ratios", "*.attention.compress_ratios"):
		p.setEachKind(always(Unclear))
		p.addUnknown("kv_bytes", "the layers keep compressed rows of several tokens (compress_ratios), in an order of the program's own")
		return
	case p.says(false, "*.attention.causal"), slices.Contains(encoders, p.arch) && !p.says(true, "is_decoder"):
		p.setEachKind(always(Nothing))
		return
	case kindByType[p.arch] != "":
		p.setEachKind(always(kindByType[p.arch]))
	case !p.setEachKind(p.kindsByList()) && !p.setEachKind(p.kindsByIndexes()) && !p.setEachKind(p.kindsByPeriod()) && !p.setEachKind(p.kindsByHeads()):
		p.setEachKind(always(Attention))
		p.assumesAttention = true
	}
	layers := p.plan.Layers
	cross := p.ints("cross_attention_layers", "*.attention.cross_attention_layers")
	for _, i := range cross {
		if i < len(layers) {
			layers[i].Kind = Cross
		}
	}
	if len(cross) > 0 {
		p.addUnknown("kv_bytes", "layers of cross-attention (%d) keep what belongs to images or sound, whose number depends on the input", len(cross))
	}
	n, _ := p.int("*.nextn_predict_layers") // the last n layers predict further tokens
	for i := max(0, len(layers)-n); i < len(layers); i++ {
		layers[i].Kind = Draft
	}
}

// always returns a function that returns k.
func always(k Kind) func(int) Kind { return func(int) Kind { return k } }

// setEachKind gives layer i the kind that kind returns for it. It reports false, and sets nothing, if kind is nil.
func (p *planner) setEachKind(kind func(i int) Kind) bool {
	for i := range p.plan.Layers {
		if kind != nil {
			p.plan.Layers[i].Kind = kind(i)
		}
	}
	return kind != nil
}

// kindsByList returns the kinds of a list of words, or of a string of letters, one for each layer. Layers without a word, or with one that
// kindByWord lacks, are Unclear, and at most 8 such words are noted as unknown. It returns nil if the configuration has neither.
func (p *planner) kindsByList() func(i int) Kind {
	for _, name := range []string{"layer_types", "layers_block_type", "hybrid_override_pattern", "_block_types", "block_types"} {
		list, ok := ask[[]string](p, name)
		if letters, isString := ask[string](p, name); !ok && isString {
			list = strings.Split(letters, "")
		}
		if len(list) == 0 {
			continue
		}
		isPattern := strings.HasSuffix(name, "block_types") // of RecurrentGemma: it begins again after its last word
		if !isPattern {
			p.checkLength(name, len(list))
		}
		noted := make(map[string]bool)
		return func(i int) Kind {
			if i >= len(list) && !isPattern {
				return Unclear
			}
			word := list[i%len(list)]
			k, ok := kindByWord[word]
			switch {
			case !ok:
				if !noted[word] && len(noted) < 8 {
					noted[word] = true
					p.addUnknown("kv_bytes", "%s has %.40q, and what such layers keep is not known", name, word)
				}
				return Unclear
			case isPattern && k == Attention && p.has("attention_window_size"):
				return Window
			}
			return k
		}
	}
	return nil
}

// checkLength compares n, the length of the list under name, with the number of layers. It notes a difference as an unknown of kv_bytes.
func (p *planner) checkLength(name string, n int) {
	if n != len(p.plan.Layers) {
		p.addUnknown("kv_bytes", "%s has a length of %d, and num_hidden_layers is %d", name, n, len(p.plan.Layers))
	}
}

// kindsByIndexes returns the kinds of a configuration that lists the positions of layers with attention: all other layers are recurrent. If
// there is no such list, it uses a list of a flag for each layer, which is not 0 for attention. It returns nil if there is neither list.
func (p *planner) kindsByIndexes() func(i int) Kind {
	firstNumber := 0 // the number of the first layer in list
	list := p.ints("attn_layer_indices", "full_attn_idxs")
	if list == nil { // Kimi counts layers from 1
		list, firstNumber = p.ints("linear_attn_config/full_attn_layers"), 1
	}
	flags := p.ints("attn_type_list")
	if list == nil && flags == nil {
		return nil
	}
	hasAttention := make(map[int]bool)
	for _, number := range list {
		hasAttention[number-firstNumber] = true
	}
	return func(i int) Kind {
		if hasAttention[i] || list == nil && i < len(flags) && flags[i] != 0 {
			return Attention
		}
		return Recurrent
	}
}

// kindsByPeriod returns the kinds of a configuration with a period: one layer in each period has attention, and the others are recurrent. If
// the period is attn_layer_period, attention is at position attn_layer_offset of the period. Otherwise the last layer of the period has it.
// kindsByPeriod returns nil without a period.
func (p *planner) kindsByPeriod() func(i int) Kind {
	period, ok := p.int("attn_layer_period")
	offset, _ := p.int("attn_layer_offset")
	if !ok {
		if period, ok = p.int("full_attention_interval", "*.full_attention_interval"); !ok && strings.HasPrefix(p.arch, "qwen3next") {
			period = 4 // llama.cpp's default
		}
		offset = period - 1
	}
	if period == 0 {
		return nil
	}
	return func(i int) Kind {
		if i%period == offset {
			return Attention
		}
		return Recurrent
	}
}

// kindsByHeads returns the kinds of a configuration that lists the number of heads of each layer. A layer with heads has attention. A layer
// with 0 heads is recurrent if the configuration has the size of a state, and the layer does not feed forward. Otherwise its kind is
// Nothing. A layer beyond the list is Unclear. kindsByHeads returns nil without a list, or if no number in the list is 0.
func (p *planner) kindsByHeads() func(i int) Kind {
	heads := p.ints("num_key_value_heads", "num_kv_heads")
	if !slices.Contains(heads, 0) {
		return nil
	}
	p.checkLength("num_key_value_heads", len(heads))
	hasState := p.has("*.ssm.inner_size", "*.shortconv.l_cache", "*.wkv.head_size", "*.kda.head_dim")
	var forwardSizes []int
	if strings.HasPrefix(p.arch, "nemotron_h") { // its layers without heads either feed forward or have a state
		forwardSizes = p.ints("*.feed_forward_length")
	}
	return func(i int) Kind {
		switch {
		case i >= len(heads):
			return Unclear
		case heads[i] > 0:
			return Attention
		case !hasState, i < len(forwardSizes) && forwardSizes[i] > 0:
			return Nothing
		}
		return Recurrent
	}
}

// fullEveryNth has a number n for each model type: every n-th layer has no window. 0 means that all layers have a window. It serves
// configurations that do not say which layers have a window.
var fullEveryNth = map[string]int{
	"mistral": 0, "mixtral": 0, "starcoder2": 0, "phi3": 0, "phimoe": 0,
	"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma3n": 5, "gemma3n_text": 5, "cohere2": 4, "gpt_oss": 2, "gpt-oss": 2,
	"exaone4": 4, "olmo3": 4, "llama4": 4, "llama4_text": 4,
}

// setWindows sets the kind Window for layers that attend to a sliding window of tokens, unless setKinds has found such layers. It also sets
// Layer.Window of such layers. If the number of tokens is not known, setWindows sets 0, which counts as all tokens, and notes an unknown.
func (p *planner) setWindows() {
	// A layer that attends to chunks of tokens keeps at most one chunk, as if that were a window.
	window, ok := p.int("sliding_window", "attention_window_size", "attention_chunk_size", "*.attention.chunk_size")
	if p.says(false, "use_sliding_window") {
		window, ok = 0, false
	}
	switch nth := fullEveryNth[p.arch]; {
	case p.anyWindow(): // setKinds has found them
	case ok && window > 0:
		p.setSliding()
	case nth > 0 && p.arch != "exaone4" && !p.has("layer_types"): // some models of type exaone4 have no window
		p.addUnknown("kv_bytes", "layers of %s slide, and the configuration does not say over how many tokens: they are counted with all", p.arch)
	}
	sliding := 0
	for i := range p.plan.Layers {
		if l := &p.plan.Layers[i]; l.Kind == Window {
			l.Window = window
			sliding++
		}
	}
	if sliding > 0 && window == 0 {
		p.addUnknown("kv_bytes", "layers slide (%d), and the configuration does not say over how many tokens: they are counted with all", sliding)
	}
}

// anyWindow reports whether some layer has a window: layers without one may then have other numbers of heads.
func (p *planner) anyWindow() bool {
	return slices.ContainsFunc(p.plan.Layers, func(l Layer) bool { return l.Kind == Window })
}

// setSliding sets the kind Window for the layers with attention that do not attend to all tokens, unless setKinds has read a list of kinds.
// If nothing says which layers they are, it sets none, and notes that as unknown.
func (p *planner) setSliding() {
	if p.has("layer_types", "layers_block_type") {
		return
	}
	isFull := func(i int) bool { return true } // whether layer i attends to all tokens
	flags := p.flags("*.attention.sliding_window_pattern", "sliding_window_pattern", "hybrid_layer_pattern")
	if len(flags) > 0 {
		p.checkLength("the list of layers that slide", len(flags))
	}
	letters, _ := ask[string](p, "sliding_window_pattern") // L for local, and G for global
	nth, hasNth := p.int("sliding_window_pattern", "_sliding_window_pattern", "*.attention.sliding_window_pattern", "no_rope_layer_interval")
	fullLayers, hasFullLayers := p.int("max_window_layers")
	if !hasNth && !p.says(true, "use_sliding_window") {
		nth, hasNth = fullEveryNth[p.arch]
	}
	switch {
	case len(flags) > 0:
		isFull = func(i int) bool { return i >= len(flags) || !flags[i] }
	case letters != "" && strings.Trim(letters, "LG") == "":
		isFull = func(i int) bool { return letters[i%len(letters)] == 'G' }
	case hasNth: // every nth layer is full, or none if nth is 0
		isFull = func(i int) bool { return nth > 0 && (i+1)%nth == 0 }
	case hasFullLayers && p.says(true, "use_sliding_window"): // Qwen2: the first layers are full
		isFull = func(i int) bool { return i < fullLayers }
	default:
		p.addUnknown("kv_bytes", "there is a sliding window, and the configuration does not say which layers have it: they are counted with all tokens")
	}
	for i := range p.plan.Layers {
		if l := &p.plan.Layers[i]; l.Kind == Attention && !isFull(i) {
			l.Kind = Window
		}
	}
}

// flags returns the first list of truth values, or of numbers, under one of the names that is not empty. All numbers but 0 are true. The
// result is empty if there is no such list.
func (p *planner) flags(names ...string) (flags []bool) {
	for i := 0; i < len(names) && len(flags) == 0; i++ {
		flags, _ = ask[[]bool](p, names[i])
		if numbers, _ := ask[[]int](p, names[i]); len(flags) == 0 {
			for _, n := range numbers {
				flags = append(flags, n != 0)
			}
		}
	}
	return flags
}

// setShared sets the kind Shared for layers that use the keys and values of earlier layers. The configuration says how many of the last
// layers do so. Layers among them that keep no keys and values have their kind unchanged.
func (p *planner) setShared() {
	n, _ := p.int("num_kv_shared_layers", "*.attention.shared_kv_layers")
	layers := p.plan.Layers
	for i := max(0, len(layers)-n); i < len(layers); i++ {
		if layers[i].Kind.caches() {
			layers[i].Kind = Shared
		}
	}
}
