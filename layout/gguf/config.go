package gguf

import (
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// configKeys are the keys for the names in Hugging Face's config.json (gguf-py, constants.py). * stands
// for the architecture.
var configKeys = [][2]string{
	{"model_type", keyArchitecture},
	{"hidden_size", "*.embedding_length"},
	{"num_hidden_layers", "*.block_count"},
	{"num_attention_heads", "*.attention.head_count"},
	{"num_key_value_heads", "*.attention.head_count_kv"},
	{"head_dim", "*.attention.key_length"},
	{"intermediate_size", "*.feed_forward_length"},
	{"max_position_embeddings", "*.context_length"},
	{"vocab_size", "*.vocab_size"},
	{"rms_norm_eps", "*.attention.layer_norm_rms_epsilon"},
	{"layer_norm_eps", "*.attention.layer_norm_epsilon"},
	{"rope_theta", "*.rope.freq_base"},
	{"sliding_window", "*.attention.sliding_window"},
	{"num_local_experts", "*.expert_count"},
	{"num_experts_per_tok", "*.expert_used_count"},
	{"bos_token_id", "tokenizer.ggml.bos_token_id"},
	{"eos_token_id", "tokenizer.ggml.eos_token_id"},
	{"pad_token_id", "tokenizer.ggml.padding_token_id"},
}

// Config returns the hyperparameters in md under their names in config.json. Without a vocab_size it is
// the number of tokens.
func (f *File) Config(md layout.Metadata) (config layout.Metadata) {
	v, _ := md.Get(keyArchitecture)
	arch, _ := v.(string)
	for _, k := range configKeys {
		if v, ok := md.Get(strings.Replace(k[1], "*", arch, 1)); ok {
			config = append(config, layout.Entry{Key: k[0], Value: v})
		}
	}
	if _, ok := config.Get("vocab_size"); !ok {
		v, _ := md.Get("tokenizer.ggml.tokens")
		if tokens, ok := v.([]string); ok {
			config = append(config, layout.Entry{Key: "vocab_size", Value: len(tokens)})
		}
	}
	return config
}
