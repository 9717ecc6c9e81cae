package loader_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
	"github.com/tensormap/tensormap/loader"
)

// configured opens a model of SafeTensors with config.json beside it.
func configured(t *testing.T, config string, tensors ...modeltest.Tensor) *loader.Model {
	t.Helper()
	if len(tensors) == 0 {
		tensors = []modeltest.Tensor{modeltest.Random("x", layout.U8, 1)}
	}
	m, err := loader.OpenFS(fstest.MapFS{"m": {Data: modeltest.SafeTensors(tensors...)}, "config.json": {Data: []byte(config)}}, "m", nil)
	return modeltest.Opened(t, m, err)
}

// ggufOf opens a model of GGUF with this metadata and no tensors.
func ggufOf(t *testing.T, md layout.Metadata) *loader.Model {
	t.Helper()
	var file bytes.Buffer
	w, err := gguf.NewWriter(&file, slices.Values([]layout.Tensor(nil)), md, nil)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return openBytes(t, file.Bytes(), nil)
}

// checkFootprint compares the bytes of caches and states, and the number of layers of each kind, with what is known of a model.
func checkFootprint(t *testing.T, model string, f *loader.Footprint, token, cache, state uint64, kinds map[string]int) {
	t.Helper()
	got := make(map[string]int)
	for _, l := range f.Layers {
		got[l.Kind]++
	}
	if f.KVBytesPerToken != token || f.KVBytes != cache || f.StateBytes != state || len(f.Unknown) > 0 || !reflect.DeepEqual(got, kinds) {
		t.Errorf("%s: %d a token, want %d; %d, want %d; state %d, want %d; %v, want %v; unknown %v",
			model, f.KVBytesPerToken, token, f.KVBytes, cache, f.StateBytes, state, got, kinds, f.Unknown)
	}
}

// TestFootprintKnown has the numbers of published config.json files, shortened to what tells the cache, and the arithmetic of what
// 32,768 tokens take.
func TestFootprintKnown(t *testing.T) {
	repeated := func(s string, n int) string { // n JSON strings
		return strings.TrimSuffix(strings.Repeat(`"`+s+`",`, n), ",")
	}
	const n = 32768
	for _, tc := range []struct {
		name, config string
		token        uint64 // bytes of a token in every layer, as F16
		cache        uint64 // bytes of n tokens
		state        uint64
		kinds        map[string]int
	}{
		{
			"Llama 3.1 8B", `{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072}`,
			32 * 2 * 8 * 128 * 2, // layers, keys and values, heads, head_dim = 4096/32, bytes: 131,072
			n * 131072, 0, map[string]int{"attention": 32},
		},
		{
			"Gemma 3 27B", `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":5376,"num_hidden_layers":62,"num_attention_heads":32,
				"num_key_value_heads":16,"head_dim":128,"sliding_window":1024,"sliding_window_pattern":6},"vision_config":{"num_hidden_layers":27,"num_attention_heads":16}}`,
			62 * 2 * 16 * 128 * 2,
			10*n*8192 + 52*1024*8192, // every sixth of 62 layers is full: 10. 2 × 16 × 128 × 2 = 8,192 bytes
			0, map[string]int{"attention": 10, "sliding attention": 52},
		},
		{
			"Gemma 3 27B, without the pattern", `{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","num_hidden_layers":62,"num_attention_heads":32,
				"num_key_value_heads":16,"head_dim":128,"sliding_window":1024}}`,
			62 * 8192, 10*n*8192 + 52*1024*8192, 0, map[string]int{"attention": 10, "sliding attention": 52},
		},
		{ // google/gemma-2-27b: layers 0, 2, ... 44 slide. 2 × 16 × 128 × 2 = 8,192 bytes
			"Gemma 2 27B", `{"model_type":"gemma2","hidden_size":4608,"num_hidden_layers":46,"num_attention_heads":32,"num_key_value_heads":16,"head_dim":128,
				"sliding_window":4096,"max_position_embeddings":8192}`,
			46 * 2 * 16 * 128 * 2, 23*n*8192 + 23*4096*8192, 0, map[string]int{"attention": 23, "sliding attention": 23},
		},
		{ // mistralai/Mistral-7B-v0.3 has no window
			"Mistral 7B v0.3", `{"model_type":"mistral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"sliding_window":null}`,
			131072, n * 131072, 0, map[string]int{"attention": 32},
		},
		{ // Gemma 4 12B: 8 of 48 layers see all tokens, with one head of 512, which grows by 16 KiB a token, as the engine in
			// github.com/raullenchai/Rapid-MLX/pull/1423 says. The others have 8 heads of 256.
			"Gemma 4 12B", `{"model_type":"gemma4","text_config":{"model_type":"gemma4_text","num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":8,
				"head_dim":256,"num_global_key_value_heads":1,"global_head_dim":512,"sliding_window":1024,"layer_types":[` +
				repeated(strings.Repeat(`sliding_attention","`, 5)+"full_attention", 8) + `]}}`,
			40*8192 + 8*2048, 40*1024*8192 + n*16384, 0, map[string]int{"attention": 8, "sliding attention": 40},
		},
		{
			"DeepSeek-V3", `{"model_type":"deepseek_v3","num_hidden_layers":61,"num_attention_heads":128,"num_key_value_heads":128,"kv_lora_rank":512,
				"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,"num_nextn_predict_layers":1}`,
			61 * (512 + 64) * 2, // one row: 70,272
			n * 70272, 0, map[string]int{"attention": 61},
		},
		{
			"Jamba 1.5 Mini", `{"model_type":"jamba","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"attn_layer_period":8,
				"attn_layer_offset":4,"mamba_d_conv":4,"mamba_d_state":16,"mamba_expand":2,"sliding_window":null}`,
			4 * 2 * 8 * 128 * 2, n * 4 * 4096,
			28 * (3*8192 + 8192*16) * 4, // 2 × 4096 channels
			map[string]int{"attention": 4, "recurrent": 28},
		},
		{
			"Granite 4.0 H Small", `{"model_type":"granitemoehybrid","hidden_size":4096,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,
				"layer_types":[` + repeated("mamba", 5) + `,"attention",` + repeated("mamba", 9) + `,"attention",` + repeated("mamba", 9) + `,"attention",` +
				repeated("mamba", 9) + `,"attention",` + repeated("mamba", 4) + `],"mamba_d_conv":4,"mamba_d_head":64,"mamba_d_state":128,"mamba_expand":2,
				"mamba_n_groups":1,"mamba_n_heads":128}`,
			4 * 2 * 8 * 128 * 2, n * 4 * 4096,
			36 * (3*(8192+2*128) + 8192*128) * 4, // 128 heads × 64
			map[string]int{"attention": 4, "recurrent": 36},
		},
		{
			"gpt-oss-20b", `{"model_type":"gpt_oss","hidden_size":2880,"num_hidden_layers":24,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,
				"sliding_window":128,"layer_types":[` + repeated(`sliding_attention","full_attention`, 12) + `]}`,
			24 * 2 * 8 * 64 * 2,
			12*n*2048 + 12*128*2048, // 2 × 8 × 64 × 2 = 2,048 bytes
			0, map[string]int{"attention": 12, "sliding attention": 12},
		},
		{
			"Qwen3-Next 80B A3B", `{"model_type":"qwen3_next","hidden_size":2048,"num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,
				"full_attention_interval":4,"linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_num_key_heads":16,"linear_num_value_heads":32,
				"linear_value_head_dim":128}`,
			12 * 2 * 2 * 256 * 2, n * 12 * 2048,
			36 * (3*(2*16*128+32*128) + 32*128*128) * 4,
			map[string]int{"attention": 12, "recurrent": 36},
		},
		{
			"Nemotron-H 8B", `{"model_type":"nemotron_h","hidden_size":4096,"num_hidden_layers":52,"num_attention_heads":32,"num_key_value_heads":8,"attention_head_dim":128,
				"hybrid_override_pattern":"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-","conv_kernel":4,"mamba_num_heads":128,"mamba_head_dim":64,
				"n_groups":8,"ssm_state_size":128,"sliding_window":null}`,
			4 * 2 * 8 * 128 * 2, n * 4 * 4096,
			24 * (3*(8192+2*8*128) + 8192*128) * 4,
			map[string]int{"attention": 4, "recurrent": 24, "none": 24},
		},
		{
			"Mistral 7B v0.1", `{"model_type":"mistral","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"sliding_window":4096}`,
			131072, 4096 * 131072, 0, map[string]int{"sliding attention": 32},
		},
		{
			"Qwen2.5 7B", `{"model_type":"qwen2","hidden_size":3584,"num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,"sliding_window":131072,
				"use_sliding_window":false,"max_window_layers":28}`,
			28 * 2 * 4 * 128 * 2, n * 57344, 0, map[string]int{"attention": 28},
		},
		{
			"Llama 4 Scout", `{"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":5120,"num_hidden_layers":48,"num_attention_heads":40,
				"num_key_value_heads":8,"head_dim":128,"attention_chunk_size":8192}}`,
			48 * 2 * 8 * 128 * 2, 12*n*4096 + 36*8192*4096, 0, map[string]int{"attention": 12, "sliding attention": 36},
		},
		{
			"Gemma 3n E4B", `{"model_type":"gemma3n","text_config":{"model_type":"gemma3n_text","num_hidden_layers":35,"num_attention_heads":8,"num_key_value_heads":2,
				"head_dim":256,"sliding_window":512,"num_kv_shared_layers":15,"layer_types":[` + repeated(strings.Repeat(`sliding_attention","`, 4)+"full_attention", 7) + `]}}`,
			20 * 2 * 2 * 256 * 2, 4*n*2048 + 16*512*2048, 0, map[string]int{"attention": 4, "sliding attention": 16, "shared": 15},
		},
		{
			"Falcon 7B", `{"model_type":"falcon","hidden_size":4544,"num_hidden_layers":32,"num_attention_heads":71,"multi_query":true,"new_decoder_architecture":false}`,
			32 * 2 * 64 * 2, n * 8192, 0, map[string]int{"attention": 32},
		},
		{
			"MiniLM", `{"model_type":"bert","hidden_size":384,"num_hidden_layers":6,"num_attention_heads":12}`,
			0, 0, 0, map[string]int{"none": 6},
		},
		{
			"Kimi Linear 48B A3B", `{"model_type":"kimi_linear","hidden_size":2304,"num_hidden_layers":27,"num_attention_heads":32,"num_key_value_heads":32,"head_dim":72,
				"kv_lora_rank":512,"qk_rope_head_dim":64,"v_head_dim":128,"linear_attn_config":{"full_attn_layers":[4,8,12,16,20,24,27],
				"kda_layers":[1,2,3,5,6,7,9,10,11,13,14,15,17,18,19,21,22,23,25,26],"head_dim":128,"num_heads":32,"short_conv_kernel_size":4}}`,
			7 * (512 + 64) * 2, n * 7 * 1152, 20 * (3*3*32*128 + 32*128*128) * 4, map[string]int{"attention": 7, "recurrent": 20},
		},
		{
			"Bamba 9B", `{"model_type":"bamba","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"attn_layer_indices":[9,18,27],
				"mamba_d_conv":4,"mamba_d_head":64,"mamba_d_state":128,"mamba_expand":2,"mamba_n_groups":1,"mamba_n_heads":128}`,
			3 * 4096, n * 3 * 4096, 29 * (3*(8192+2*128) + 8192*128) * 4, map[string]int{"attention": 3, "recurrent": 29},
		},
		{
			"RecurrentGemma 2B", `{"model_type":"recurrent_gemma","hidden_size":2560,"num_hidden_layers":26,"num_attention_heads":10,"num_key_value_heads":1,"head_dim":256,
				"attention_window_size":2048,"conv1d_width":4,"lru_width":2560,"_block_types":["recurrent","recurrent","attention"]}`,
			8 * 2 * 256 * 2, 8 * 2048 * 1024, 18 * (3*2560 + 2560) * 4, map[string]int{"sliding attention": 8, "recurrent": 18},
		},
		{
			"MiniMax Text 01", `{"model_type":"minimax_text_01","hidden_size":6144,"num_hidden_layers":8,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,
				"attn_type_list":[0,0,0,0,0,0,0,1]}`,
			4096, n * 4096, 7 * 64 * 128 * 128 * 4, map[string]int{"attention": 1, "recurrent": 7},
		},
		{
			"Mamba 2.8B", `{"model_type":"mamba","hidden_size":2560,"intermediate_size":5120,"num_hidden_layers":64,"conv_kernel":4,"state_size":16,"expand":2}`,
			0, 0, 64 * (3*5120 + 5120*16) * 4, map[string]int{"recurrent": 64},
		},
		{
			"Mamba-2 2.7B", `{"model_type":"mamba2","hidden_size":2560,"num_hidden_layers":64,"conv_kernel":4,"state_size":128,"expand":2,"head_dim":64,"num_heads":80,"n_groups":1}`,
			0, 0, 64 * (3*(5120+2*128) + 5120*128) * 4, map[string]int{"recurrent": 64},
		},
		{
			"Falcon-H1 1.5B", `{"model_type":"falcon_h1","hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":128,
				"mamba_d_conv":4,"mamba_d_ssm":3072,"mamba_d_head":64,"mamba_n_heads":48,"mamba_n_groups":1,"mamba_d_state":256}`,
			24 * 2 * 2 * 128 * 2, n * 24 * 1024, 24 * (3*(3072+2*256) + 3072*256) * 4, map[string]int{"attention and recurrent": 24},
		},
		{
			"Zamba2 1.2B, six layers of it", `{"model_type":"zamba2","hidden_size":2048,"num_hidden_layers":6,"num_attention_heads":32,"num_key_value_heads":32,
				"attention_head_dim":128,"layers_block_type":["mamba","mamba","mamba","mamba","mamba","hybrid"],"mamba_d_conv":4,"mamba_d_state":128,"mamba_expand":2,
				"mamba_ngroups":1,"n_mamba_heads":64}`,
			2 * 32 * 128 * 2, n * 16384, 6 * (3*(4096+2*128) + 4096*128) * 4, map[string]int{"recurrent": 5, "attention and recurrent": 1},
		},
		{
			"MiMo V2 Flash, five layers of it", `{"model_type":"mimo_v2_flash","hidden_size":4096,"num_hidden_layers":5,"num_attention_heads":64,"num_key_value_heads":4,
				"head_dim":192,"v_head_dim":128,"swa_num_key_value_heads":8,"swa_head_dim":192,"swa_v_head_dim":128,"sliding_window":128,"hybrid_layer_pattern":[0,1,1,1,1]}`,
			4*(192+128)*2 + 4*8*(192+128)*2, n*2560 + 4*128*5120, 0, map[string]int{"attention": 1, "sliding attention": 4},
		},
		{
			"EXAONE 4.0 32B, four layers of it", `{"model_type":"exaone4","hidden_size":5120,"num_hidden_layers":4,"num_attention_heads":40,"num_key_value_heads":8,
				"head_dim":128,"sliding_window":4096,"sliding_window_pattern":"LLLG"}`,
			4 * 4096, n*4096 + 3*4096*4096, 0, map[string]int{"attention": 1, "sliding attention": 3},
		},
		{
			"Qwen2 with windows", `{"model_type":"qwen2","hidden_size":3584,"num_hidden_layers":4,"num_attention_heads":28,"num_key_value_heads":4,"sliding_window":1024,
				"use_sliding_window":true,"max_window_layers":3}`,
			4 * 2048, 3*n*2048 + 1024*2048, 0, map[string]int{"attention": 3, "sliding attention": 1},
		},
		{
			"DBRX, four layers of it", `{"model_type":"dbrx","d_model":6144,"n_layers":4,"n_heads":48,"attn_config":{"kv_n_heads":8}}`,
			4 * 4096, n * 4 * 4096, 0, map[string]int{"attention": 4},
		},
		{
			"LFM2 1.2B", `{"model_type":"lfm2","hidden_size":2048,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"conv_L_cache":3,
				"layer_types":["conv","conv","full_attention","conv","conv","full_attention","conv","conv","full_attention","conv","full_attention","conv",
				"full_attention","conv","full_attention","conv"]}`,
			6 * 2 * 8 * 64 * 2, n * 6 * 2048, 10 * 2 * 2048 * 4, map[string]int{"attention": 6, "recurrent": 10},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := configured(t, tc.config)
			f := must(m.Footprint(&loader.FootprintOptions{Context: n}))(t)
			checkFootprint(t, tc.name, f, tc.token, tc.cache, tc.state, tc.kinds)
			if f.TotalBytes != f.WeightsBytes+tc.cache+tc.state || f.TotalBytes != f.At(n) {
				t.Errorf("%d in all, at %d: %d", f.TotalBytes, n, f.At(n))
			}
			// Two sequences take twice as much, and a value of Q8_0 34/32 bytes instead of 2.
			two := must(m.Footprint(&loader.FootprintOptions{Context: n, Sequences: 2, KV: layout.Q8_0}))(t)
			if two.KVBytes != 2*tc.cache/2*34/32 || two.StateBytes != 2*tc.state {
				t.Errorf("two in Q8_0: %d and %d", two.KVBytes, two.StateBytes)
			}
		})
	}
}

// TestFootprintGGUF asks metadata of GGUF, with lists of one number for each layer too.
func TestFootprintGGUF(t *testing.T) {
	const n = 10000
	of := func(arch string, entries ...layout.Entry) layout.Metadata {
		md := layout.Metadata{{Key: "general.architecture", Value: arch}}
		for _, e := range entries {
			md.Set(arch+"."+e.Key, e.Value)
		}
		return md
	}
	for name, tc := range map[string]struct {
		md                  layout.Metadata
		token, cache, state uint64
		kinds               map[string]int
	}{
		"llama": {
			of("llama", layout.Entry{Key: "block_count", Value: uint32(32)}, layout.Entry{Key: "embedding_length", Value: uint32(4096)},
				layout.Entry{Key: "attention.head_count", Value: uint32(32)}, layout.Entry{Key: "attention.head_count_kv", Value: uint32(8)}),
			131072, n * 131072, 0, map[string]int{"attention": 32},
		},
		"without head_count_kv every head has keys": {
			of("llama", layout.Entry{Key: "block_count", Value: uint32(2)}, layout.Entry{Key: "embedding_length", Value: uint32(64)},
				layout.Entry{Key: "attention.head_count", Value: uint32(4)}),
			2 * 2 * 64 * 2, n * 256 * 2, 0, map[string]int{"attention": 2},
		},
		"zeros are layers without attention": { // Llama 3.3 Nemotron Super leaves out attention
			of("deci", layout.Entry{Key: "block_count", Value: uint32(4)}, layout.Entry{Key: "embedding_length", Value: uint32(1024)},
				layout.Entry{Key: "attention.head_count", Value: []uint32{8, 0, 8, 8}}, layout.Entry{Key: "attention.head_count_kv", Value: []uint32{8, 0, 2, 1}},
				layout.Entry{Key: "attention.key_length", Value: uint32(128)}, layout.Entry{Key: "attention.value_length", Value: uint32(128)}),
			(8 + 2 + 1) * 2 * 128 * 2, n * 11 * 512, 0, map[string]int{"attention": 3, "none": 1},
		},
		"zeros are recurrent layers": {
			of("granitehybrid", layout.Entry{Key: "block_count", Value: uint32(4)}, layout.Entry{Key: "embedding_length", Value: uint32(1536)},
				layout.Entry{Key: "attention.head_count", Value: uint32(12)}, layout.Entry{Key: "attention.head_count_kv", Value: []int32{0, 0, 4, 0}},
				layout.Entry{Key: "ssm.conv_kernel", Value: uint32(4)}, layout.Entry{Key: "ssm.inner_size", Value: uint32(3072)},
				layout.Entry{Key: "ssm.state_size", Value: uint32(128)}, layout.Entry{Key: "ssm.group_count", Value: uint32(1)}),
			2 * 4 * 128 * 2, n * 2048, 3 * (3*(3072+2*128) + 3072*128) * 4, map[string]int{"attention": 1, "recurrent": 3},
		},
		"gemma2": {
			of("gemma2", layout.Entry{Key: "block_count", Value: uint32(4)}, layout.Entry{Key: "attention.head_count_kv", Value: uint32(4)},
				layout.Entry{Key: "attention.key_length", Value: uint32(256)}, layout.Entry{Key: "attention.value_length", Value: uint32(128)},
				layout.Entry{Key: "attention.sliding_window", Value: uint32(4096)}),
			4 * 4 * (256 + 128) * 2, 2*n*3072 + 2*4096*3072, 0, map[string]int{"attention": 2, "sliding attention": 2},
		},
		"a pattern of its own": {
			of("gemma4", layout.Entry{Key: "block_count", Value: uint32(3)}, layout.Entry{Key: "attention.head_count_kv", Value: []uint32{8, 8, 2}},
				layout.Entry{Key: "attention.key_length", Value: uint32(512)}, layout.Entry{Key: "attention.value_length", Value: uint32(512)},
				layout.Entry{Key: "attention.key_length_swa", Value: uint32(256)}, layout.Entry{Key: "attention.value_length_swa", Value: uint32(256)},
				layout.Entry{Key: "attention.sliding_window", Value: uint32(1024)}, layout.Entry{Key: "attention.sliding_window_pattern", Value: []bool{true, true, false}}),
			2*8*2*256*2 + 2*2*512*2, 2*1024*8192 + n*4096, 0, map[string]int{"attention": 1, "sliding attention": 2},
		},
		"gemma3": { // Gemma 3 27B: as its config.json above
			of("gemma3", layout.Entry{Key: "block_count", Value: uint32(62)}, layout.Entry{Key: "embedding_length", Value: uint32(5376)},
				layout.Entry{Key: "attention.head_count", Value: uint32(32)}, layout.Entry{Key: "attention.head_count_kv", Value: uint32(16)},
				layout.Entry{Key: "attention.key_length", Value: uint32(128)}, layout.Entry{Key: "attention.value_length", Value: uint32(128)},
				layout.Entry{Key: "attention.sliding_window", Value: uint32(1024)}),
			62 * 8192, 10*n*8192 + 52*1024*8192, 0, map[string]int{"attention": 10, "sliding attention": 52},
		},
		"gpt-oss": { // gpt-oss-20b
			of("gpt-oss", layout.Entry{Key: "block_count", Value: uint32(24)}, layout.Entry{Key: "embedding_length", Value: uint32(2880)},
				layout.Entry{Key: "attention.head_count", Value: uint32(64)}, layout.Entry{Key: "attention.head_count_kv", Value: uint32(8)},
				layout.Entry{Key: "attention.key_length", Value: uint32(64)}, layout.Entry{Key: "attention.value_length", Value: uint32(64)},
				layout.Entry{Key: "attention.sliding_window", Value: uint32(128)}),
			24 * 2048, 12*n*2048 + 12*128*2048, 0, map[string]int{"attention": 12, "sliding attention": 12},
		},
		"jamba": { // Jamba 1.5 Mini: layers 4, 12, 20 and 28 of 32 have attention
			of("jamba", layout.Entry{Key: "block_count", Value: uint32(32)}, layout.Entry{Key: "embedding_length", Value: uint32(4096)},
				layout.Entry{Key: "attention.head_count", Value: uint32(32)},
				layout.Entry{Key: "attention.head_count_kv", Value: slices.Repeat([]uint32{0, 0, 0, 0, 8, 0, 0, 0}, 4)},
				layout.Entry{Key: "ssm.conv_kernel", Value: uint32(4)}, layout.Entry{Key: "ssm.inner_size", Value: uint32(8192)},
				layout.Entry{Key: "ssm.state_size", Value: uint32(16)}, layout.Entry{Key: "ssm.time_step_rank", Value: uint32(256)}),
			4 * 4096, n * 4 * 4096, 28 * (3*8192 + 8192*16) * 4, map[string]int{"attention": 4, "recurrent": 28},
		},
		"falcon-h1": { // Falcon-H1 1.5B
			of("falcon-h1", layout.Entry{Key: "block_count", Value: uint32(24)}, layout.Entry{Key: "embedding_length", Value: uint32(2048)},
				layout.Entry{Key: "attention.head_count", Value: uint32(8)}, layout.Entry{Key: "attention.head_count_kv", Value: uint32(2)},
				layout.Entry{Key: "attention.key_length", Value: uint32(128)}, layout.Entry{Key: "attention.value_length", Value: uint32(128)},
				layout.Entry{Key: "ssm.conv_kernel", Value: uint32(4)}, layout.Entry{Key: "ssm.inner_size", Value: uint32(3072)},
				layout.Entry{Key: "ssm.state_size", Value: uint32(256)}, layout.Entry{Key: "ssm.group_count", Value: uint32(1)}),
			24 * 1024, n * 24 * 1024, 24 * (3*(3072+2*256) + 3072*256) * 4, map[string]int{"attention and recurrent": 24},
		},
		"deepseek2": {
			of("deepseek2", layout.Entry{Key: "block_count", Value: uint32(62)}, layout.Entry{Key: "attention.head_count_kv", Value: uint32(1)},
				layout.Entry{Key: "attention.key_length", Value: uint32(576)}, layout.Entry{Key: "attention.value_length", Value: uint32(512)},
				layout.Entry{Key: "attention.kv_lora_rank", Value: uint32(512)}, layout.Entry{Key: "rope.dimension_count", Value: uint32(64)},
				layout.Entry{Key: "nextn_predict_layers", Value: uint32(1)}),
			70272, n * 70272, 0, map[string]int{"attention": 61, "draft": 1},
		},
		"rwkv7": {
			of("rwkv7", layout.Entry{Key: "block_count", Value: uint32(2)}, layout.Entry{Key: "embedding_length", Value: uint32(768)},
				layout.Entry{Key: "wkv.head_size", Value: uint32(64)}, layout.Entry{Key: "attention.head_count", Value: uint32(0)}),
			0, 0, 2 * 768 * (64 + 2) * 4, map[string]int{"recurrent": 2},
		},
		"lfm2": {
			of("lfm2", layout.Entry{Key: "block_count", Value: uint32(2)}, layout.Entry{Key: "embedding_length", Value: uint32(2048)},
				layout.Entry{Key: "attention.head_count", Value: uint32(32)}, layout.Entry{Key: "attention.head_count_kv", Value: []uint32{0, 8}},
				layout.Entry{Key: "shortconv.l_cache", Value: uint32(3)}),
			2 * 8 * 64 * 2, n * 2048, 2 * 2048 * 4, map[string]int{"attention": 1, "recurrent": 1},
		},
		"kimi-linear": {
			of("kimi-linear", layout.Entry{Key: "block_count", Value: uint32(2)}, layout.Entry{Key: "embedding_length", Value: uint32(2304)},
				layout.Entry{Key: "attention.head_count", Value: uint32(32)}, layout.Entry{Key: "attention.head_count_kv", Value: []uint32{0, 1}},
				layout.Entry{Key: "attention.kv_lora_rank", Value: uint32(512)}, layout.Entry{Key: "rope.dimension_count", Value: uint32(64)},
				layout.Entry{Key: "kda.head_dim", Value: uint32(128)}, layout.Entry{Key: "ssm.conv_kernel", Value: uint32(4)}),
			576 * 2, n * 1152, (3*3*32*128 + 32*128*128) * 4, map[string]int{"attention": 1, "recurrent": 1},
		},
		"nemotron_h": { // a layer with neither heads nor a feed-forward part recurs
			of("nemotron_h", layout.Entry{Key: "block_count", Value: uint32(3)}, layout.Entry{Key: "embedding_length", Value: uint32(4096)},
				layout.Entry{Key: "attention.head_count", Value: uint32(32)}, layout.Entry{Key: "attention.head_count_kv", Value: []uint32{0, 8, 0}},
				layout.Entry{Key: "feed_forward_length", Value: []uint32{0, 0, 100}}, layout.Entry{Key: "ssm.conv_kernel", Value: uint32(4)},
				layout.Entry{Key: "ssm.inner_size", Value: uint32(8192)}, layout.Entry{Key: "ssm.state_size", Value: uint32(128)}, layout.Entry{Key: "ssm.group_count", Value: uint32(8)}),
			4096, n * 4096, (3*(8192+2*8*128) + 8192*128) * 4, map[string]int{"attention": 1, "recurrent": 1, "none": 1},
		},
		"bert": {
			of("bert", layout.Entry{Key: "block_count", Value: uint32(2)}, layout.Entry{Key: "embedding_length", Value: uint32(64)},
				layout.Entry{Key: "attention.head_count", Value: uint32(4)}, layout.Entry{Key: "attention.causal", Value: false}),
			0, 0, 0, map[string]int{"none": 2},
		},
		"qwen3next": {
			of("qwen3next", layout.Entry{Key: "block_count", Value: uint32(8)}, layout.Entry{Key: "attention.head_count_kv", Value: uint32(2)},
				layout.Entry{Key: "attention.key_length", Value: uint32(256)}, layout.Entry{Key: "attention.value_length", Value: uint32(256)},
				layout.Entry{Key: "ssm.conv_kernel", Value: uint32(4)}, layout.Entry{Key: "ssm.inner_size", Value: uint32(4096)},
				layout.Entry{Key: "ssm.state_size", Value: uint32(128)}, layout.Entry{Key: "ssm.group_count", Value: uint32(16)}),
			2 * 2048, n * 2 * 2048, 6 * (3*8192 + 524288) * 4, map[string]int{"attention": 2, "recurrent": 6},
		},
	} {
		f := must(ggufOf(t, tc.md).Footprint(&loader.FootprintOptions{Context: n}))(t)
		checkFootprint(t, name, f, tc.token, tc.cache, tc.state, tc.kinds)
	}
}

// TestFootprintGemma4: an estimator gave 58 GB for Gemma 4 12B with 131,072 tokens in Q8_0, which runs in 24 GB. It took 16 heads of 240 in all
// 48 layers (github.com/tmac1973/llama-toolchest/pull/58). The file has the keys below (github.com/NousResearch/hermes-agent/issues/109551).
func TestFootprintGemma4(t *testing.T) {
	const n = 131072
	f := must(ggufOf(t, layout.Metadata{
		{Key: "general.architecture", Value: "gemma4"}, {Key: "gemma4.block_count", Value: uint32(48)}, {Key: "gemma4.context_length", Value: uint32(262144)},
		{Key: "gemma4.attention.head_count", Value: uint32(16)}, {Key: "gemma4.embedding_length", Value: uint32(3840)},
		{Key: "gemma4.attention.head_count_kv", Value: slices.Repeat([]int32{8, 8, 8, 8, 8, 1}, 8)},
		{Key: "gemma4.attention.sliding_window", Value: uint32(1024)},
		{Key: "gemma4.attention.sliding_window_pattern", Value: slices.Repeat([]bool{true, true, true, true, true, false}, 8)},
		{Key: "gemma4.attention.key_length", Value: uint32(512)}, {Key: "gemma4.attention.value_length", Value: uint32(512)},
		{Key: "gemma4.attention.key_length_swa", Value: uint32(256)}, {Key: "gemma4.attention.value_length_swa", Value: uint32(256)},
	}).Footprint(&loader.FootprintOptions{Context: n, KV: layout.Q8_0}))(t)
	// 8 layers keep all tokens: 1 head × (512 + 512) values. 40 keep 1,024: 8 × (256 + 256) values. 34 bytes have 32 values.
	const want = 8*n*1024/32*34 + 40*1024*4096/32*34 // 1.3 GB; 48 × n × 16 × 480 / 32 × 34 would be 51.3 GB
	if f.KVBytes != want || want != 1_319_108_608 || len(f.Unknown) > 0 {
		t.Errorf("%d, want %d; unknown %v", f.KVBytes, want, f.Unknown)
	}
}

// TestFootprintFormats: the weights of the fixtures of every format are as many bytes as their writers say, each byte of a file once.
func TestFootprintFormats(t *testing.T) {
	for path, want := range map[string]struct {
		bytes   uint64 // the sum of "raw" in the JSON beside the file
		unknown string
	}{
		"apr1/f16.apr":                                    {26, "num_hidden_layers"},
		"apr2/compressed.apr":                             {102779, "such layers: 1"},              // decompressed
		"april/streaming.april":                           {1616 + 454 + 602, "num_hidden_layers"}, // its networks, which have the other tensors
		"bw2l/v2.b2l":                                     {344, "num_hidden_layers"},
		"tsm/tennis-graph.tsm":                            {2057, "num_hidden_layers"},
		"shards/apr2/model.apr":                           {4296, "such layers: 3"},
		"shards/gguf/model-00001-of-00004.gguf":           {4296, "num_hidden_layers"},
		"shards/safetensors/model.safetensors.index.json": {4296, "num_hidden_layers"},
	} {
		for _, w := range localWays {
			if strings.HasPrefix(path, "shards") && w.name != "Open" {
				continue // which has no other files
			}
			m, err := w.open(t, "../testdata/"+path, nil)
			f := must(modeltest.Opened(t, m, err).Footprint(&loader.FootprintOptions{Context: 9}))(t)
			parts := f.SharedBytes
			for _, l := range f.Layers {
				parts += l.WeightsBytes
			}
			if f.WeightsBytes != want.bytes || f.TotalBytes != want.bytes || parts != want.bytes {
				t.Errorf("%s, %s: %d bytes, %d of parts, want %d", w.name, path, f.WeightsBytes, parts, want.bytes)
			}
			if len(f.Unknown) != 1 || !strings.Contains(f.Unknown[0].Why, want.unknown) {
				t.Errorf("%s, %s: unknown %v, want %q", w.name, path, f.Unknown, want.unknown)
			}
		}
	}
}

// TestFootprintAPR2: the object architecture of APR2 tells what config.json does. Layers without tensors are said.
func TestFootprintAPR2(t *testing.T) {
	md := layout.Metadata{{Key: "architecture", Value: layout.Metadata{{Key: "model_type", Value: "gemma2"}, {Key: "n_layer", Value: 4},
		{Key: "num_key_value_heads", Value: 2}, {Key: "head_dim", Value: 16}, {Key: "sliding_window", Value: 8}, {Key: "n_ctx", Value: 64}}}}
	f := must(openBytes(t, modeltest.APR2(t, md, modeltest.Random("layers.3.w", layout.F32, 5)), nil).Footprint(nil))(t)
	if f.KVBytes != 2*64*128+2*8*128 || f.WeightsBytes != 20 || f.Layers[3].WeightsBytes != 20 || len(f.Unknown) != 1 || f.Unknown[0].Why != "layers without tensors in these files: 3 of 4" { // 2 × 2 × 16 × 2 bytes
		t.Errorf("%+v", f)
	}
}

// TestFootprintShapes: heads that a configuration leaves to a program's defaults are those of the tensors.
func TestFootprintShapes(t *testing.T) {
	tensor := func(name string, shape ...int) modeltest.Tensor { return modeltest.Random(name, layout.BF16, shape...) }
	for name, tc := range map[string]struct {
		config  string
		tensors []modeltest.Tensor
		token   uint64
	}{
		"keys and values": {
			`{"model_type":"gemma3","text_config":{"num_hidden_layers":1,"hidden_size":8}}`,
			[]modeltest.Tensor{tensor("language_model.model.layers.0.self_attn.k_proj.weight", 4, 8), tensor("language_model.model.layers.0.self_attn.v_proj.weight", 6, 8)},
			(4 + 6) * 2,
		},
		"one matrix": {
			`{"model_type":"gpt_neox","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":2}`,
			[]modeltest.Tensor{tensor("gpt_neox.layers.0.attention.query_key_value.weight", 24, 8)},
			2 * 8 * 2,
		},
		"one matrix, from the other side": {
			`{"model_type":"gpt2","n_layer":1,"n_embd":8,"n_head":2}`,
			[]modeltest.Tensor{tensor("h.0.attn.c_attn.weight", 8, 24)},
			2 * 8 * 2,
		},
		"grouped in one matrix": {
			`{"model_type":"phi3","num_hidden_layers":1,"hidden_size":8,"num_attention_heads":4}`,
			[]modeltest.Tensor{tensor("model.layers.0.self_attn.qkv_proj.weight", 12, 8)}, // 4 + 2 × 1 heads of 2
			2 * 2 * 2,
		},
	} {
		f := must(configured(t, tc.config, tc.tensors...).Footprint(&loader.FootprintOptions{Context: 1}))(t)
		unknown := slices.DeleteFunc(f.Unknown, func(u loader.Unknown) bool { return strings.Contains(u.Why, "slide") })
		if f.KVBytesPerToken != tc.token || len(unknown) > 0 {
			t.Errorf("%s: %d, want %d; unknown %v", name, f.KVBytesPerToken, tc.token, f.Unknown)
		}
	}
}

// TestFootprintWeights sums up tensors by layer, dtype and name, and counts bytes that two names share once.
func TestFootprintWeights(t *testing.T) {
	m := configured(t, `{"num_hidden_layers":2,"num_key_value_heads":1,"head_dim":2}`,
		modeltest.Random("model.embed_tokens.weight", layout.BF16, 10, 4), modeltest.Random("model.layers.0.a.weight", layout.F32, 4),
		modeltest.Random("model.layers.1.a.weight", layout.F32, 8), modeltest.Random("model.layers.2.a.weight", layout.F32, 2),
		modeltest.Random("model.layers.1.experts.17.w", layout.U8, 3), modeltest.Random("model.norm.weight", layout.F32, 1),
		modeltest.Random("vision.layers.0.w", layout.U8, 5), modeltest.Random("lm_head", layout.U8, 1))
	f := must(m.Footprint(&loader.FootprintOptions{Context: 100}))(t)
	if f.WeightsBytes != 80+16+32+8+3+4+5+1 || f.SharedBytes != 80+4+5+1 {
		t.Errorf("%d, of no layer %d", f.WeightsBytes, f.SharedBytes)
	}
	want := []loader.LayerFootprint{
		{Layer: 0, Kind: "attention", WeightsBytes: 16, KVBytesPerToken: 8, KVBytes: 800},
		{Layer: 1, Kind: "attention", WeightsBytes: 35, KVBytesPerToken: 8, KVBytes: 800},
		{Layer: 2, Kind: "draft", WeightsBytes: 8},
	}
	if !slices.Equal(f.Layers, want) {
		t.Errorf("%+v", f.Layers)
	}
	if want := []loader.NamedBytes{{Name: "BF16", Bytes: 80}, {Name: "F32", Bytes: 60}, {Name: "U8", Bytes: 9}}; !slices.Equal(f.DTypes, want) {
		t.Errorf("%+v", f.DTypes)
	}
	if want := []loader.NamedBytes{{Name: "model.embed_tokens", Bytes: 80}, {Name: "vision.layers", Bytes: 5}, {Name: "model.norm", Bytes: 4}, {Name: "lm_head", Bytes: 1}}; !slices.Equal(f.Shared, want) {
		t.Errorf("%+v", f.Shared)
	}
	if n := f.LargestContext(149 + 16*5 + 3); n != 5 {
		t.Errorf("%d tokens fit", n)
	}
	if n := f.LargestContext(148); n != -1 {
		t.Errorf("without the weights: %d", n)
	}
	text, err := json.Marshal(f)
	if err != nil || !strings.Contains(string(text), `"kv_dtype":"F16","weights_bytes":149,"shared_bytes":90,"kv_bytes_per_token":16,"kv_bytes":1600,"state_bytes":0,"total_bytes":1749,`) {
		t.Errorf("%s, %v", text, err)
	}
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	m.Close()
	again, err := l.Footprint(&loader.FootprintOptions{Context: 100})
	if err != nil || !reflect.DeepEqual(f, again) {
		t.Errorf("through a lease: %+v, %v", again, err)
	}
	if _, err := m.Footprint(nil); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("of a closed model: %v", err)
	}
}

// TestFootprintOddStates: a recurrent state whose size cannot be is not counted, and the field that gives it is named.
func TestFootprintOddStates(t *testing.T) {
	mamba := map[string]string{"conv_kernel": "4", "intermediate_size": "16", "state_size": "8"}
	hybrid := map[string]string{"mamba_d_conv": "4", "mamba_n_heads": "2", "mamba_d_head": "8", "mamba_n_groups": "1", "mamba_d_state": "8"}
	delta := map[string]string{"linear_conv_kernel_dim": "4", "linear_num_key_heads": "2", "linear_key_head_dim": "8", "linear_num_value_heads": "2", "linear_value_head_dim": "8"}
	kimi := map[string]string{"num_heads": "2", "head_dim": "4", "short_conv_kernel_size": "4"}
	for _, fields := range []map[string]string{mamba, hybrid, delta, kimi} {
		configure := func(odd, value string) string {
			text := ""
			for name, v := range fields {
				if name == odd {
					v = value
				}
				text += fmt.Sprintf(`, %q: %s`, name, v)
			}
			if fields["short_conv_kernel_size"] != "" {
				text = fmt.Sprintf(`, "linear_attn_config": {%s}`, text[1:])
			}
			return `{"num_hidden_layers": 1, "layer_types": ["mamba"]` + text + `}`
		}
		sound := must(configured(t, configure("", "")).Footprint(nil))(t)
		if sound.StateBytes == 0 || len(sound.Unknown) > 0 {
			t.Errorf("%v: %d, %v", fields, sound.StateBytes, sound.Unknown)
		}
		for name := range fields {
			for _, value := range []string{"-1", "0", "2147483647", "1e99", `"x"`} {
				f := must(configured(t, configure(name, value)).Footprint(nil))(t)
				if f.StateBytes != 0 || len(f.Unknown) != 1 || f.Unknown[0].What != "state_bytes" || !strings.Contains(f.Unknown[0].Why, name) {
					t.Errorf("%s = %s: %d, %q", name, value, f.StateBytes, f.Unknown)
				}
			}
		}
	}
}

// TestFootprintUnknown: what a configuration does not tell is said, and counted as Unknown says.
func TestFootprintUnknown(t *testing.T) {
	const n = 1000
	for config, want := range map[string]struct {
		what, why string
		cache     uint64
	}{
		`{}`:                           {"kv_bytes", "num_hidden_layers", 0},
		`{"num_hidden_layers":2}`:      {"kv_bytes_per_token", "such layers: 2", 0},
		`{"num_hidden_layers":100000}`: {"kv_bytes", "100000", 0},
		`{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"sliding_window":10}`:                          {"kv_bytes", "which layers", 4 * n},
		`{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"layer_types":["sliding_attention"]}`:          {"kv_bytes", "over how many tokens", 4 * n},
		`{"num_hidden_layers":2,"num_key_value_heads":1,"head_dim":1,"layer_types":["attention","novel"]}`:          {"kv_bytes", `"novel"`, 4 * n},
		`{"num_hidden_layers":2,"num_key_value_heads":1,"head_dim":1,"layer_types":["attention"]}`:                  {"kv_bytes", "a length of 1, and num_hidden_layers is 2", 4 * n},
		`{"num_hidden_layers":2,"num_key_value_heads":[1],"head_dim":1}`:                                            {"kv_bytes_per_token", "layer 1", 4 * n},
		`{"num_hidden_layers":2,"num_key_value_heads":1,"head_dim":1,"layer_types":["attention","mamba"]}`:          {"state_bytes", "recurrent layers (1)", 4 * n},
		`{"num_hidden_layers":1,"kv_lora_rank":8}`:                                                                  {"kv_bytes_per_token", "qk_rope_head_dim", 0},
		`{"num_hidden_layers":1,"kv_lora_rank":8,"qk_rope_head_dim":1,"index_head_dim":5}`:                          {"kv_bytes_per_token", "5 values more", 18 * n},
		`{"num_hidden_layers":1,"is_encoder_decoder":true}`:                                                         {"kv_bytes", "encoder", 0},
		`{"text_config":{"num_hidden_layers":2,"num_key_value_heads":1,"head_dim":1,"cross_attention_layers":[1]}}`: {"kv_bytes", "cross-attention", 4 * n},
		`{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"compress_ratios":[4]}`:                        {"kv_bytes", "compress", 0},
		`{"model_type":"gemma2","num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1}`:                        {"kv_bytes", "gemma2", 4 * n},
		// Lists that disagree with the number of layers.
		`{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"layer_types":["attention","attention"]}`:        {"kv_bytes", "a length of 2, and num_hidden_layers is 1", 4 * n},
		`{"num_hidden_layers":3,"num_key_value_heads":[0,1],"head_dim":1}`:                                            {"kv_bytes", "a length of 2, and num_hidden_layers is 3", 4 * n},
		`{"num_hidden_layers":2,"num_key_value_heads":1,"head_dim":1,"sliding_window":10,"hybrid_layer_pattern":[1]}`: {"kv_bytes", "a length of 1, and num_hidden_layers is 2", 4*10 + 4*n},
		// Windows that are there and null.
		`{"model_type":"gemma3_text","num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"sliding_window":null}`:          {"kv_bytes", "over how many tokens", 4 * n},
		`{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"layer_types":["sliding_attention"],"sliding_window":null}`: {"kv_bytes", "over how many tokens", 4 * n},
		// Sizes of heads that transformers' classes have and the file does not, and heads that differ by class.
		`{"model_type":"gpt_oss","hidden_size":2880,"num_hidden_layers":2,"num_attention_heads":64,"num_key_value_heads":8,"sliding_window":128}`: {"kv_bytes_per_token", "such layers: 2", 0},
		`{"model_type":"mistral","hidden_size":4096,"num_hidden_layers":2,"num_attention_heads":32}`:                                              {"kv_bytes_per_token", "such layers: 2", 0},
		// Jamba's class has the layers with attention where the file does not.
		`{"model_type":"jamba","hidden_size":8,"num_hidden_layers":2,"num_key_value_heads":1,"head_dim":1,"mamba_d_conv":4,"mamba_expand":2,"mamba_d_state":16}`: {"kv_bytes", "which layers recur", 8 * n},
		// Architectures that nobody knows.
		`{"model_type":"novel","num_hidden_layers":2,"hidden_size":8,"num_attention_heads":4}`:                 {"kv_bytes_per_token", "such layers: 2", 0},
		`{"model_type":"novel","num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"sliding_window":9}`: {"kv_bytes", "which layers", 4 * n},
		`{"num_hidden_layers":-1}`: {"kv_bytes", "num_hidden_layers", 0},
		`{"num_hidden_layers":1,"num_key_value_heads":99999999999,"head_dim":1}`:                                                                        {"kv_bytes_per_token", "such layers: 1", 0},
		`{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"max_position_embeddings":"x","sliding_window_pattern":"LLLX","sliding_window":3}`: {"kv_bytes", "which layers", 4 * n},
	} {
		f := must(configured(t, config).Footprint(&loader.FootprintOptions{Context: n}))(t)
		if len(f.Unknown) != 1 || f.Unknown[0].What != want.what || !strings.Contains(f.Unknown[0].Why, want.why) || f.KVBytes != want.cache {
			t.Errorf("%s: %d, %q; want %d, %v", config, f.KVBytes, f.Unknown, want.cache, want)
		}
		if known := want.what == "state_bytes"; f.CacheKnown() != known || f.KVBytesPerToken == 0 && f.LargestContext(24e9) != 0 {
			t.Errorf("%s: %t, %d tokens fit", config, f.CacheKnown(), f.LargestContext(24e9))
		}
	}
	// DeepSeek-V2-Lite as llama.cpp converted it before it had them: "one needs to re-convert" for compressed rows (ik_llama.cpp, discussion 354).
	f := must(ggufOf(t, layout.Metadata{{Key: "general.architecture", Value: "deepseek2"}, {Key: "deepseek2.block_count", Value: uint32(27)},
		{Key: "deepseek2.attention.head_count_kv", Value: uint32(16)}, {Key: "deepseek2.attention.kv_lora_rank", Value: uint32(512)},
		{Key: "deepseek2.rope.dimension_count", Value: uint32(64)}, {Key: "deepseek2.attention.key_length", Value: uint32(192)},
		{Key: "deepseek2.attention.value_length", Value: uint32(128)}}).Footprint(&loader.FootprintOptions{Context: 1}))(t)
	if len(f.Unknown) != 1 || !strings.Contains(f.Unknown[0].Why, "16 heads") || f.KVBytes != 27*576*2 {
		t.Errorf("an old file: %d, %v", f.KVBytes, f.Unknown)
	}
	f = must(configured(t, `{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1}`).Footprint(nil))(t)
	if len(f.Unknown) != 1 || f.Context != 0 || !strings.Contains(f.Unknown[0].Why, "no context") {
		t.Errorf("without a context: %+v", f)
	}
	f = must(configured(t, `{"num_hidden_layers":1,"num_key_value_heads":1,"head_dim":1,"max_position_embeddings":50}`).Footprint(nil))(t)
	if len(f.Unknown) != 0 || f.Context != 50 || f.KVBytes != 200 {
		t.Errorf("as long as the model can: %+v", f)
	}
	f = must(configured(t, `{"num_hidden_layers":1,"num_key_value_heads":2,"head_dim":4}`, modeltest.Random("layers.0.k_proj.weight", layout.F32, 4, 4)).Footprint(&loader.FootprintOptions{Context: 1}))(t)
	if len(f.Unknown) != 1 || !strings.Contains(f.Unknown[0].Why, "4 rows") || f.KVBytesPerToken != 32 {
		t.Errorf("tensors that contradict: %+v", f)
	}
}

// TestFootprintHostile: numbers that no model has give no sum that has wrapped around, and take no time.
func TestFootprintHostile(t *testing.T) {
	const most = math.MaxInt32
	config := fmt.Sprintf(`{"num_hidden_layers":65536,"num_key_value_heads":%d,"head_dim":%d,"layer_types":["mamba"],"linear_attn_config":{"num_heads":%d,"head_dim":%d,"short_conv_kernel_size":%d}}`,
		most, most, most, most, most)
	f := must(configured(t, strings.Replace(config, `"layer_types":["mamba"],`, "", 1)).Footprint(&loader.FootprintOptions{Context: math.MaxInt, Sequences: math.MaxInt, KV: layout.F32}))(t)
	if f.TotalBytes != math.MaxUint64 || f.LargestContext(math.MaxUint64) != math.MaxInt32 {
		t.Errorf("%d, %d", f.TotalBytes, f.LargestContext(math.MaxUint64))
	}
	must(configured(t, config).Footprint(nil))(t)
	for _, opts := range []loader.FootprintOptions{{Context: -1}, {Sequences: -1}, {KV: layout.BOOL}, {KV: layout.VOID}, {KV: 255}} {
		if _, err := configured(t, "{}").Footprint(&opts); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	m := configured(t, "{}", modeltest.Random("layers.99999999999.x", layout.U8, 1), modeltest.Random("layers.65536.x", layout.U8, 1), modeltest.Random(".0.x", layout.U8, 1),
		modeltest.Random("0", layout.U8, 1), modeltest.Random("", layout.U8, 1), modeltest.Random("...", layout.U8, 1))
	f, sum := must(m.Footprint(nil))(t), uint64(0)
	for _, l := range f.Layers {
		sum += l.WeightsBytes
	}
	if f.WeightsBytes != 6 || f.SharedBytes+sum != 6 {
		t.Errorf("%+v", f)
	}
}
