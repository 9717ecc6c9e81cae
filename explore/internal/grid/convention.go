package grid

import "slices"

// conventions has names of roles by which conventions are known: the first whose names all occur. Behind | are others.
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
