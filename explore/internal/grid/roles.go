package grid

import (
	"iter"
	"slices"
	"strings"
)

// The parts of a network.
const (
	Embeddings  = "embeddings"
	Attention   = "attention"
	FeedForward = "feed-forward"
	Recurrence  = "recurrence"
	Norms       = "norms"
	Output      = "output"
	Pooler      = "pooler"
	Others      = "others"
)

// hiddenAxis says which dimension of a tensor is the hidden size of the network, counted from the end.
type hiddenAxis int

const (
	noAxis   hiddenAxis = iota
	lastAxis            // of [out, hidden], of embeddings, of norms
	rowsAxis            // the one before the last: of [hidden, in]
)

// kind is what tables know of a role.
type kind struct {
	common   string // what it is called in general
	part     string
	rank     int // order in the network
	axis     hiddenAxis
	biasAxis hiddenAxis // of its bias
}

// inLayers has, by the last segments of names without weight or bias, what roles in layers are. The names are as in
// Hugging Face's models, in ggml's and in Meta's files; shapes are [out, in].
var inLayers = table([]entry{
	{"attn_norm input_layernorm ln_1 norm1 attention_norm self_attn_layer_norm layernorm_before layer_norm1 " +
		"layer.0.layer_norm input_norm operator_norm temporal_pre_norm", kind{"norm before attention", Attention, 10, lastAxis, lastAxis}},
	{"attn_q attention.self.query self_attn.q_proj attention.q_proj attn.q_proj attention.wq attention.q_lin attention.query self.query " +
		"SelfAttention.q attn.to_q attn1.to_q attention.attention.query self_attention.query attn.q q_proj",
		kind{"query projection", Attention, 20, lastAxis, noAxis}},
	{"attn_k attention.self.key self_attn.k_proj attention.k_proj attn.k_proj attention.wk attention.k_lin attention.key self.key " +
		"SelfAttention.k attn.to_k attn1.to_k attention.attention.key self_attention.key attn.k k_proj",
		kind{"key projection", Attention, 21, lastAxis, noAxis}},
	{"attn_v attention.self.value self_attn.v_proj attention.v_proj attn.v_proj attention.wv attention.v_lin attention.value self.value " +
		"SelfAttention.v attn.to_v attn1.to_v attention.attention.value self_attention.value attn.v v_proj",
		kind{"value projection", Attention, 22, lastAxis, noAxis}},
	{"attn_qkv self_attn.qkv_proj attn.Wqkv attn.c_attn attn.in_proj self_attention.query_key_value attention.query_key_value attn.qkv " +
		"self_attn.W_pack attention.wqkv mixer.Wqkv attn.in_proj_weight attn.in_proj_bias qkv_proj",
		kind{"query, key and value projections", Attention, 23, lastAxis, noAxis}},
	{"attn_q_a self_attn.q_a_proj", kind{"query projection, to low rank", Attention, 16, lastAxis, noAxis}},
	{"attn_q_a_norm self_attn.q_a_layernorm", kind{"norm of queries of low rank", Attention, 17, noAxis, noAxis}},
	{"attn_q_b self_attn.q_b_proj", kind{"query projection, from low rank", Attention, 18, noAxis, noAxis}},
	{"attn_kv_a_mqa self_attn.kv_a_proj_with_mqa", kind{"key and value projection, to low rank", Attention, 24, lastAxis, noAxis}},
	{"attn_kv_a_norm self_attn.kv_a_layernorm", kind{"norm of keys and values of low rank", Attention, 25, noAxis, noAxis}},
	{"attn_kv_b self_attn.kv_b_proj", kind{"key and value projection, from low rank", Attention, 26, noAxis, noAxis}},
	{"attn_k_b", kind{"key projection, from low rank", Attention, 27, noAxis, noAxis}},
	{"attn_v_b", kind{"value projection, from low rank", Attention, 28, noAxis, noAxis}},
	{"attn_q_norm self_attn.q_norm attn.q_norm self_attn.q_layernorm", kind{"norm of queries", Attention, 30, noAxis, noAxis}},
	{"attn_k_norm self_attn.k_norm attn.k_norm self_attn.k_layernorm", kind{"norm of keys", Attention, 31, noAxis, noAxis}},
	{"attn_sinks self_attn.sinks", kind{"attention sinks", Attention, 32, noAxis, noAxis}},
	{"attn_output attn_out attention.output.dense self_attn.o_proj self_attn.out_proj attention.o_proj attention.out_proj attn.out_proj " +
		"attn.o_proj attention.wo attention.out_lin SelfAttention.o attn.proj attn.to_out.0 attn1.to_out.0 self_attention.dense " +
		"attention.dense self_attn.dense attn.o attn.c_proj o_proj", kind{"attention's output projection", Attention, 35, rowsAxis, lastAxis}},
	{"attn_output_norm attention.output.LayerNorm sa_layer_norm", kind{"norm after attention", Attention, 40, lastAxis, lastAxis}},
	{"post_attention_norm", kind{"norm after attention", Attention, 41, lastAxis, lastAxis}},
	{"post_attention_layernorm", kind{"norm between attention and feed-forward", FeedForward, 42, lastAxis, lastAxis}},

	{"layer.1.EncDecAttention.q EncDecAttention.q encoder_attn.q_proj attn2.to_q", kind{"query projection of cross-attention", Attention, 43, lastAxis, noAxis}},
	{"EncDecAttention.k encoder_attn.k_proj attn2.to_k", kind{"key projection of cross-attention", Attention, 44, lastAxis, noAxis}},
	{"EncDecAttention.v encoder_attn.v_proj attn2.to_v", kind{"value projection of cross-attention", Attention, 45, lastAxis, noAxis}},
	{"EncDecAttention.o encoder_attn.out_proj attn2.to_out.0", kind{"output projection of cross-attention", Attention, 46, rowsAxis, lastAxis}},
	{"encoder_attn_layer_norm", kind{"norm of cross-attention", Attention, 47, lastAxis, lastAxis}},

	{"ffn_norm pre_feedforward_layernorm ln_2 norm2 layernorm_after layer_norm2 ffn_layer_norm",
		kind{"norm before feed-forward", FeedForward, 50, lastAxis, lastAxis}},
	{"final_layer_norm", kind{"norm of feed-forward", FeedForward, 50, lastAxis, lastAxis}},
	{"ffn_gate_inp mlp.gate block_sparse_moe.gate mlp.router feed_forward.router feed_forward.gate mlp.router.gate moe.gate",
		kind{"router to experts", FeedForward, 55, lastAxis, noAxis}},
	{"exp_probs_b mlp.gate.e_score_correction_bias", kind{"correction of the router", FeedForward, 56, noAxis, noAxis}},
	{"ffn_gate_inp_shexp mlp.shared_expert_gate", kind{"gate of the shared expert", FeedForward, 57, lastAxis, noAxis}},
	{"ffn_gate mlp.gate_proj feed_forward.w1 mlp.w1 mlp.fc12 DenseReluDense.wi_0 feed_forward.gate_proj gate_proj",
		kind{"gate projection", FeedForward, 60, lastAxis, noAxis}},
	{"ffn_up intermediate.dense mlp.up_proj feed_forward.w3 mlp.w3 mlp.w2 mlp.fc11 mlp.fc1 mlp.c_fc mlp.dense_h_to_4h DenseReluDense.wi " +
		"DenseReluDense.wi_1 fc1 ffn.lin1 feed_forward.up_proj up_proj", kind{"up projection", FeedForward, 61, lastAxis, noAxis}},
	{"mlp.gate_up_proj ffn_gate_up gate_up_proj", kind{"gate and up projections", FeedForward, 62, lastAxis, noAxis}},
	{"ffn_down output.dense mlp.down_proj feed_forward.w2 mlp.c_proj mlp.fc2 mlp.dense_4h_to_h DenseReluDense.wo fc2 ffn.lin2 " +
		"feed_forward.down_proj down_proj", kind{"down projection", FeedForward, 63, rowsAxis, lastAxis}},
	{"ffn_gate_exps experts.gate_proj experts.w1", kind{"gate projection of experts", FeedForward, 65, lastAxis, noAxis}},
	{"ffn_up_exps experts.up_proj experts.w3", kind{"up projection of experts", FeedForward, 66, lastAxis, noAxis}},
	{"ffn_gate_up_exps experts.gate_up_proj", kind{"gate and up projections of experts", FeedForward, 67, lastAxis, noAxis}},
	{"ffn_down_exps experts.down_proj experts.w2", kind{"down projection of experts", FeedForward, 68, rowsAxis, lastAxis}},
	{"ffn_gate_shexp shared_expert.gate_proj shared_experts.gate_proj", kind{"gate projection of the shared expert", FeedForward, 70, lastAxis, noAxis}},
	{"ffn_up_shexp shared_expert.up_proj shared_experts.up_proj", kind{"up projection of the shared expert", FeedForward, 71, lastAxis, noAxis}},
	{"ffn_down_shexp shared_expert.down_proj shared_experts.down_proj", kind{"down projection of the shared expert", FeedForward, 72, rowsAxis, lastAxis}},
	{"layer_output_norm output.LayerNorm output_layer_norm post_ffw_norm post_feedforward_layernorm",
		kind{"norm after feed-forward", FeedForward, 75, lastAxis, lastAxis}},

	{"ssm_in mixer.in_proj mamba.in_proj", kind{"input projection", Recurrence, 80, lastAxis, noAxis}},
	{"ssm_conv1d mixer.conv1d mamba.conv1d", kind{"convolution", Recurrence, 81, noAxis, noAxis}},
	{"ssm_x mixer.x_proj mamba.x_proj", kind{"projection to states", Recurrence, 82, noAxis, noAxis}},
	{"ssm_dt mixer.dt_proj mamba.dt_proj", kind{"projection to steps", Recurrence, 83, noAxis, noAxis}},
	{"ssm_a mixer.A_log mamba.A_log", kind{"state matrix", Recurrence, 84, noAxis, noAxis}},
	{"ssm_d mixer.D mamba.D", kind{"skip weights", Recurrence, 84, noAxis, noAxis}},
	{"ssm_out mixer.out_proj mamba.out_proj", kind{"output projection", Recurrence, 85, rowsAxis, lastAxis}},
})

// outsideLayers has, likewise, what tensors outside all layers are.
var outsideLayers = table([]entry{
	{"token_embd embeddings.word_embeddings embed_tokens wte word_embeddings tok_embeddings word_embedding shared embed_in token_embedding " +
		"wte.embedding", kind{"embeddings of tokens", Embeddings, 0, lastAxis, noAxis}},
	{"position_embd embeddings.position_embeddings embed_positions wpe position_embeddings positional_embedding position_embedding",
		kind{"embeddings of positions", Embeddings, 1, lastAxis, noAxis}},
	{"token_types embeddings.token_type_embeddings token_type_embeddings", kind{"embeddings of token types", Embeddings, 2, lastAxis, noAxis}},
	{"token_embd_norm embeddings.LayerNorm emb_ln word_embeddings_layernorm layernorm_embedding",
		kind{"norm of embeddings", Embeddings, 3, lastAxis, lastAxis}},
	{"embeddings.position_ids", kind{"numbers of positions", Embeddings, 4, noAxis, noAxis}},
	{"output_norm model.norm norm ln_f final_layer_norm final_layernorm backbone.norm_f norm_f",
		kind{"norm after the last layer", Norms, 0, lastAxis, lastAxis}},
	{"output lm_head embed_out", kind{"output projection to tokens", Output, 0, lastAxis, noAxis}},
	{"pooler.dense", kind{"pooler", Pooler, 0, noAxis, noAxis}},
})

// entry gives names, separated by spaces, of one kind.
type entry struct {
	names string
	kind  kind
}

// table maps the names of entries to their kinds.
func table(entries []entry) map[string]*kind {
	m := make(map[string]*kind)
	for i := range entries {
		for _, name := range strings.Fields(entries[i].names) {
			m[name] = &entries[i].kind
		}
	}
	return m
}

// Bounds of names in tables.
const (
	maxSegments = 4
	maxEnd      = 64 // bytes
)

// module returns a name without its last part, if that says which parameter of a module it is, and that part.
func module(name string) (path, parameter string) {
	name = strings.TrimSuffix(name, ":0")
	i := strings.LastIndexAny(name, "./")
	if i < 0 {
		return name, ""
	}
	switch p := name[i+1:]; p {
	case "weight", "kernel", "gamma", "bias", "beta", "embedding":
		return name[:i], p
	}
	return name, ""
}

// isBias reports whether the parameter of a module is added, not multiplied.
func isBias(parameter string) bool { return parameter == "bias" || parameter == "beta" }

// kindIn returns what a table has for the longest end of path, or a guess.
func kindIn(table map[string]*kind, path string) *kind {
	var k *kind
	for end := range ends(path) {
		if found := table[end]; found != nil {
			k = found
		}
	}
	if k == nil {
		return guess(path)
	}
	return k
}

// ends yields the last part of path, the last two and so on, with dots between them, as far as tables have names so long.
func ends(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		path = path[max(0, len(path)-maxEnd-1):]
		if strings.Contains(path, "/") {
			path = strings.ReplaceAll(path, "/", ".")
		}
		from := len(path)
		for range maxSegments {
			from = strings.LastIndexByte(path[:from], '.')
			if end := path[from+1:]; len(end) <= maxEnd && !yield(end) || from < 0 {
				return
			}
		}
	}
}

// guessed has kinds by words in lower case, separated by spaces. A path that has one of them is of that kind, and the first kind
// that fits counts. A path begins with a dot here.
var guessed = []entry{
	{"attn attention", kind{part: Attention, rank: 49}},
	{"mlp ffn feed_forward feedforward expert moe .ff.", kind{part: FeedForward, rank: 79}},
	{"embed", kind{part: Embeddings, rank: 5}},
	{"ssm mamba conv1d rwkv time_mix", kind{part: Recurrence, rank: 85}},
	{"norm", kind{part: Norms, rank: 85}},
	{"lm_head output classifier score", kind{part: Output, rank: 90}},
}

// others is the kind of names that tell nothing.
var others = &kind{part: Others, rank: 90}

// guess returns the kind that words in a path tell, which no table has.
func guess(path string) *kind {
	path = "." + strings.ToLower(path[max(0, len(path)-256):])
	for i := range guessed {
		for word := range strings.FieldsSeq(guessed[i].names) {
			if strings.Contains(path, word) {
				return &guessed[i].kind
			}
		}
	}
	return others
}

// conventions has names of roles by which conventions are known: the first whose names all occur.
var conventions = []struct {
	name  string
	roles []string
}{
	{"ggml, BERT", []string{"blk", "attn_output_norm", "layer_output_norm"}},
	{"ggml, llama", []string{"blk", "attn_q", "attn_output", "ffn_norm"}},
	{"ggml", []string{"blk"}},
	{"Hugging Face, DistilBERT", []string{"attention.q_lin"}},
	{"Hugging Face, BERT", []string{"attention.self.query", "attention.output.dense"}},
	{"Hugging Face, ViT", []string{"attention.attention.query"}},
	{"Hugging Face, Mixtral", []string{"self_attn.q_proj", "block_sparse_moe.gate"}},
	{"Hugging Face, DeepSeek", []string{"self_attn.kv_a_proj_with_mqa"}},
	{"Hugging Face, Phi-3", []string{"self_attn.qkv_proj", "mlp.gate_up_proj"}},
	{"Hugging Face, llama", []string{"self_attn.q_proj", "mlp.gate_proj"}},
	{"Hugging Face, llama", []string{"self_attn.q_proj", "experts.gate_proj"}},
	{"Hugging Face, llama", []string{"self_attn.q_proj", "experts.gate_up_proj"}},
	{"Hugging Face, BART", []string{"self_attn.q_proj", "fc1"}},
	{"Hugging Face, CLIP", []string{"self_attn.q_proj", "mlp.fc1"}},
	{"Hugging Face, GPT-2", []string{"attn.c_attn", "mlp.c_fc"}},
	{"Hugging Face, GPT-NeoX", []string{"attention.query_key_value"}},
	{"Hugging Face, BLOOM", []string{"self_attention.query_key_value"}},
	{"Hugging Face, T5", []string{"SelfAttention.q"}},
	{"Hugging Face, Nomic BERT", []string{"attn.Wqkv", "mlp.fc11"}},
	{"Hugging Face, Mamba", []string{"mixer.in_proj", "mixer.A_log"}},
	{"Meta, llama", []string{"attention.wq", "feed_forward.w1"}},
}

// convention returns the name of the convention that names follow, or "".
func (x *Index) convention() string {
	found := make(map[string]bool)
	for _, r := range x.roles {
		for end := range ends(r.path) {
			found[end] = true
		}
		if s := x.stacks[r.stack]; s == "blk." {
			found["blk"] = true
		}
	}
	for _, c := range conventions {
		if !slices.ContainsFunc(c.roles, func(role string) bool { return !found[role] }) {
			return c.name
		}
	}
	return ""
}
