package kvcache

import (
	"slices"
	"strings"
)

// words are the names of kinds in lists with one for each layer, such as layer_types.
var words = map[string]Kind{
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

// setKinds sets the kind of each layer, as the first of the ways to say it that the configuration uses.
func (q *questions) setKinds() {
	layers := q.plan.Layers
	switch {
	case q.yes("is_encoder_decoder"):
		q.fill(Unclear)
		q.unknown("kv_bytes", "models of an encoder and a decoder keep the encoder's output too, whose length depends on the input")
		return
	case q.has("compress_ratios", "*.attention.compress_ratios"):
		q.fill(Unclear)
		q.unknown("kv_bytes", "the layers keep compressed rows of several tokens (compress_ratios), in an order of the program's own")
		return
	case q.no("*.attention.causal"), slices.Contains(encoders, q.arch) && !q.yes("is_decoder"):
		q.fill(Nothing)
		return
	case slices.Contains(recurrentTypes, q.arch):
		q.fill(Recurrent)
	case q.arch == "falcon_h1", q.arch == "falcon-h1":
		q.fill(Both)
	case !q.listed() && !q.indexed() && !q.periodic() && !q.headless():
		q.fill(Attention)
		q.assumesAttention = true
	}
	if cross := q.ints("cross_attention_layers", "*.attention.cross_attention_layers"); len(cross) > 0 {
		for i := range layers {
			if slices.Contains(cross, i) {
				layers[i].Kind = Cross
			}
		}
		q.unknown("kv_bytes", "layers of cross-attention (%d) keep what belongs to images or sound, whose number depends on the input", len(cross))
	}
	if n, ok := q.int("*.nextn_predict_layers"); ok {
		for i := max(0, len(layers)-n); i < len(layers); i++ {
			layers[i].Kind = Draft
		}
	}
}

// fill gives all layers one kind.
func (q *questions) fill(k Kind) {
	for i := range q.plan.Layers {
		q.plan.Layers[i].Kind = k
	}
}

// listed sets kinds from a list of names or a string of letters. It reports false if there is none.
func (q *questions) listed() bool {
	for _, name := range []string{"layer_types", "layers_block_type", "hybrid_override_pattern", "_block_types", "block_types"} {
		list, ok := ask[[]string](q, name)
		if letters, isString := ask[string](q, name); !ok && isString {
			list = strings.Split(letters, "")
		}
		if len(list) == 0 {
			continue
		}
		repeats := strings.HasSuffix(name, "block_types") // a pattern, not a list of all
		if !repeats {
			q.checkLength(name, len(list))
		}
		q.setListed(name, list, repeats)
		return true
	}
	return false
}

// checkLength notes a list under name that has n layers and not as many as the model.
func (q *questions) checkLength(name string, n int) {
	if n != len(q.plan.Layers) {
		q.unknown("kv_bytes", "%s has a length of %d, and num_hidden_layers is %d", name, n, len(q.plan.Layers))
	}
}

// setListed sets kinds from list, which repeats or leaves the last layers unclear.
func (q *questions) setListed(name string, list []string, repeats bool) {
	strange := make(map[string]bool)
	for i := range q.plan.Layers {
		l := &q.plan.Layers[i]
		l.Kind = Unclear
		if i >= len(list) && !repeats {
			continue
		}
		word := list[i%len(list)]
		if k, ok := words[word]; ok {
			l.Kind = k
		} else if !strange[word] && len(strange) < 8 {
			strange[word] = true
			q.unknown("kv_bytes", "%s has %.40q, and what such layers keep is not known", name, word)
		}
	}
	if name == "_block_types" || name == "block_types" { // RecurrentGemma's attention is local
		for i := range q.plan.Layers {
			if l := &q.plan.Layers[i]; l.Kind == Attention && q.has("attention_window_size") {
				l.Kind = Window
			}
		}
	}
}

// indexed sets kinds from lists of the layers with attention, by position. It reports false if there is none.
func (q *questions) indexed() bool {
	first := 0
	list := q.ints("attn_layer_indices", "full_attn_idxs")
	if o, ok := q.object("linear_attn_config"); ok && list == nil {
		list, first = o.ints("full_attn_layers"), 1
	}
	if kinds := q.ints("attn_type_list"); kinds != nil && list == nil {
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
	q.fill(Recurrent)
	for _, i := range list {
		if i -= first; i >= 0 && i < len(q.plan.Layers) {
			q.plan.Layers[i].Kind = Attention
		}
	}
	return true
}

// periodic sets kinds from the distance of layers with attention. It reports false if there is none.
func (q *questions) periodic() bool {
	period, ok := q.int("attn_layer_period")
	offset, _ := q.int("attn_layer_offset")
	if !ok {
		if period, ok = q.int("full_attention_interval", "*.full_attention_interval"); !ok && strings.HasPrefix(q.arch, "qwen3next") {
			period, ok = 4, true // what llama.cpp takes
		}
		offset = period - 1
	}
	if !ok || period == 0 {
		return false
	}
	for i := range q.plan.Layers {
		q.plan.Layers[i].Kind = Recurrent
		if i%period == offset {
			q.plan.Layers[i].Kind = Attention
		}
	}
	return true
}

// headless sets kinds from a list with the heads of each layer, where layers without any have no attention. It reports false if
// there is no such list.
func (q *questions) headless() bool {
	heads := q.ints("num_key_value_heads", "num_kv_heads")
	if !slices.Contains(heads, 0) {
		return false
	}
	q.checkLength("num_key_value_heads", len(heads))
	recurs := q.has("*.ssm.inner_size", "*.shortconv.l_cache", "*.wkv.head_size", "*.kda.head_dim")
	forward := q.ints("*.feed_forward_length")
	for i := range q.plan.Layers {
		l := &q.plan.Layers[i]
		switch {
		case i >= len(heads):
			l.Kind = Unclear
		case heads[i] > 0:
			l.Kind = Attention
		case recurs && !(strings.HasPrefix(q.arch, "nemotron_h") && i < len(forward) && forward[i] > 0):
			l.Kind = Recurrent
		default:
			l.Kind = Nothing
		}
	}
	return true
}

// everyNth says which layers of a model type have no window where the configuration does not: each nth. 0 means that all have one.
var everyNth = map[string]int{
	"mistral": 0, "mixtral": 0, "starcoder2": 0, "phi3": 0, "phimoe": 0,
	"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma3n": 5, "gemma3n_text": 5, "cohere2": 4, "gpt_oss": 2, "gpt-oss": 2,
	"exaone4": 4, "olmo3": 4, "llama4": 4, "llama4_text": 4,
}

// setWindows makes layers of attention slide, and sets how many tokens they keep. Layers whose window cannot be told keep all, and
// Unknown says so.
func (q *questions) setWindows() {
	window, ok := q.int("sliding_window", "attention_window_size", "attention_chunk_size", "*.attention.chunk_size")
	if q.no("use_sliding_window") {
		window, ok = 0, false
	}
	layers := q.plan.Layers
	isWindow := func(l Layer) bool { return l.Kind == Window }
	switch nth := everyNth[q.arch]; {
	case slices.ContainsFunc(layers, isWindow):
	case ok && window > 0:
		q.setSliding()
	case nth > 0 && q.arch != "exaone4" && !q.has("layer_types"): // some of EXAONE's have no window
		q.unknown("kv_bytes", "layers of %s slide, and the configuration does not say over how many tokens: they are counted with all", q.arch)
	}
	lack := 0
	for i := range layers {
		if l := &layers[i]; l.Kind == Window {
			if l.Window = window; window == 0 {
				lack++
			}
		}
	}
	if lack > 0 {
		q.unknown("kv_bytes", "layers slide (%d), and the configuration does not say over how many tokens: they are counted with all", lack)
	}
}

// setSliding gives layers of attention a sliding window: the layers that the configuration names by a pattern, or that
// models of its type are known to have.
func (q *questions) setSliding() {
	if q.has("layer_types", "layers_block_type") {
		return // these tell, and name none
	}
	full := func(i int) bool { return true }
	flags := q.flags("*.attention.sliding_window_pattern", "sliding_window_pattern", "hybrid_layer_pattern")
	if flags != nil {
		q.checkLength("the list of layers that slide", len(flags))
	}
	letters, _ := ask[string](q, "sliding_window_pattern")
	nth, ok := q.int("sliding_window_pattern", "_sliding_window_pattern", "*.attention.sliding_window_pattern", "no_rope_layer_interval")
	first, partial := q.int("max_window_layers")
	if !ok && !q.yes("use_sliding_window") {
		nth, ok = everyNth[q.arch]
	}
	switch {
	case flags != nil:
		full = func(i int) bool { return i >= len(flags) || !flags[i] }
	case letters != "" && strings.Trim(letters, "LG") == "":
		full = func(i int) bool { return letters[i%len(letters)] == 'G' }
	case ok:
		full = func(i int) bool { return nth > 0 && (i+1)%nth == 0 }
	case partial && q.yes("use_sliding_window"):
		full = func(i int) bool { return i < first }
	default:
		q.unknown("kv_bytes", "there is a sliding window, and the configuration does not say which layers have it: they are counted with all tokens")
	}
	for i := range q.plan.Layers {
		if l := &q.plan.Layers[i]; l.Kind == Attention && !full(i) {
			l.Kind = Window
		}
	}
}

// flags returns the first list of truth values, or of numbers that stand for them, under one of the names.
func (q *questions) flags(names ...string) (flags []bool) {
	for _, name := range names {
		if flags, ok := ask[[]bool](q, name); ok && len(flags) > 0 {
			return flags
		}
		if numbers, ok := ask[[]int](q, name); ok && len(numbers) > 0 {
			for _, n := range numbers {
				flags = append(flags, n != 0)
			}
			return flags
		}
	}
	return nil
}

// setShared marks the last layers that use what layers before them keep.
func (q *questions) setShared() {
	n, _ := q.int("num_kv_shared_layers", "*.attention.shared_kv_layers")
	layers := q.plan.Layers
	for i := max(0, len(layers)-n); i < len(layers); i++ {
		if layers[i].Kind.caches() {
			layers[i].Kind = Shared
		}
	}
}
