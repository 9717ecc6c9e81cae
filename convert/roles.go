package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// role says what a tensor does in a network, as its name tells.
type role uint8

const (
	otherRole role = iota
	outputRole
	embeddingRole
	attentionV
	attentionK
	attentionOutput
	ffnDown
	anyRole // in rules: stands for every role
)

// roleNames has substrings of tensors' names by role: ggml's, then Hugging Face's (gguf-py, tensor_mapping.py).
// Earlier rows win.
var roleNames = []struct {
	role  role
	names []string
}{
	// Encoders of images and sound are no layers of the model: llama.cpp has them in another file. Qwen's w2 is a gate.
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

// containsAny reports whether name contains one of words.
func containsAny(name string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

// roleOf returns the role of the tensor called name, or otherRole. Output matrices are known by the whole name, others by a part
// of it: see roleNames.
func roleOf(name string) role {
	outputs := []string{"output.weight", "embed_out.weight", "transformer.output_layer.weight"}
	if slices.Contains(outputs, name) || strings.HasSuffix("."+name, ".lm_head.weight") {
		return outputRole
	}
	for _, r := range roleNames {
		if containsAny(name, r.names) {
			return r.role
		}
	}
	return otherRole
}

// smallMatrices has substrings of the names of matrices that llama.cpp does not quantize: they are small, and errors in
// them matter.
var smallMatrices = []string{
	"ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight",
	"indexer.k_proj.weight", "indexer.q_proj.weight", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
	"a.rvq.codebook", "mm.a.code_embd",
	"time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight",
	"time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
	"time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight", "attn_rel_b.weight", ".position_embd",
	"position_embd.weight", "token_types.weight", "position_embeddings.weight", "token_type_embeddings.weight",
	"mlp.gate.weight", "block_sparse_moe.gate.weight",
}

// whyPrecise returns why a tensor should not be quantized without Options.All: "a norm", "a bias" or "one dimension". It
// returns "" for others. Dimensions of size 1 do not count.
func whyPrecise(name string, shape []int) string {
	switch last, before := lastWords(name); {
	case strings.Contains(last, "norm"), strings.Contains(before, "norm"):
		return "a norm"
	case strings.HasSuffix(last, "bias"), last == "weight" && strings.HasSuffix(before, "bias"):
		return "a bias"
	}
	dims := 0
	for _, n := range shape {
		if n > 1 {
			dims++
		}
	}
	if dims < 2 {
		return "one dimension"
	}
	return ""
}

// lastWords returns the last two words of a name, in lower case. Dots and slashes divide words.
func lastWords(name string) (last, before string) {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '.' || r == '/' })
	words = append([]string{"", ""}, words...)
	return words[len(words)-1], words[len(words)-2]
}

var layerNumber = regexp.MustCompile(`(?:^blk|(?:^|\.)(?:layers?|h|block))\.([0-9]{1,6})\.`)

// layerOf returns the number of the layer in a tensor's name, or -1 if it has none. As in llama.cpp, the blocks of
// ggml's encoders, such as enc.blk.0, are no layers.
func layerOf(name string) int {
	m := layerNumber.FindStringSubmatch(name)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1]) // no error: m[1] is at most six digits
	return n
}
