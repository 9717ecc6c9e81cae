package scheme

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
)

type stored struct {
	d     layout.DType
	shape []int
}

// checkpoints are the tensors of one layer as published checkpoints name and store them.
var checkpoints = map[string]struct {
	scheme string
	codes  string
	scale  string
	parts  []string // besides
	all    map[string]stored
}{
	"Qwen3-FP8, DeepSeek-V3": {"fp8", "q_proj.weight", "q_proj.weight_scale_inv", nil, map[string]stored{
		"q_proj.weight": {layout.F8_E4M3, []int{4096, 4100}}, "q_proj.weight_scale_inv": {layout.BF16, []int{32, 33}}, "norm.weight": {layout.BF16, []int{4096}},
	}},
	"FP8 of fused experts": {"fp8", "mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_scales_inv", nil, map[string]stored{
		"mlp.experts.gate_up_proj": {layout.F8_E4M3, []int{2, 256, 128}}, "mlp.experts.gate_up_proj_scales_inv": {layout.F32, []int{2, 2, 1}},
	}},
	"FP8 by tensor": {"fp8", "o.weight", "o.weight_scale", nil, map[string]stored{
		"o.weight": {layout.F8_E4M3, []int{8, 8}}, "o.weight_scale": {layout.F32, nil}, "o.input_scale": {layout.F32, nil}, "o.bias": {layout.BF16, []int{8}},
	}},
	"FP8 by channel": {"fp8", "o.weight", "o.weight_scale", nil, map[string]stored{
		"o.weight": {layout.F8_E5M2, []int{8, 8}}, "o.weight_scale": {layout.BF16, []int{8, 1}},
	}},
	"Mistral FP8": {"fp8", "wq.weight", "wq.qscale_weight", nil, map[string]stored{
		"wq.weight": {layout.F8_E4M3, []int{8, 8}}, "wq.qscale_weight": {layout.BF16, nil}, "wq.qscale_act": {layout.BF16, nil},
	}},
	"DeepSeek-V4": {"fp8", "wq_a.weight", "wq_a.scale", nil, map[string]stored{
		"wq_a.weight": {layout.F8_E4M3, []int{128, 128}}, "wq_a.scale": {layout.F8_E8M0, []int{1, 1}},
	}},
	"DeepSeek-V4 experts": {"mxfp4", "w1.weight", "w1.scale", nil, map[string]stored{
		"w1.weight": {layout.I8, []int{8, 32}}, "w1.scale": {layout.F8_E8M0, []int{8, 2}},
	}},
	"plain F8": {"fp8", "a.weight", "", nil, map[string]stored{
		"a.weight": {layout.F8_E4M3, []int{8, 8}}, "b.weight_scale": {layout.F32, nil}, "a.weight_scale": {layout.F32, []int{0}},
	}},
	"compressed-tensors int8": {"int", "k.weight", "k.weight_scale", []string{"k.weight_zero_point"}, map[string]stored{
		"k.weight": {layout.I8, []int{8, 8}}, "k.weight_scale": {layout.BF16, []int{8, 1}}, "k.weight_zero_point": {layout.I8, []int{8, 1}},
	}},
	"compressed-tensors int4": {"packed", "k.weight_packed", "k.weight_scale", []string{"k.weight_shape"}, map[string]stored{
		"k.weight_packed": {layout.I32, []int{8, 16}}, "k.weight_scale": {layout.BF16, []int{8, 1}}, "k.weight_shape": {layout.I64, []int{2}},
	}},
	"compressed-tensors NVFP4": {"packed", "k.weight_packed", "k.weight_scale", []string{"k.weight_global_scale"}, map[string]stored{
		"k.weight_packed": {layout.U8, []int{8, 16}}, "k.weight_scale": {layout.F8_E4M3, []int{8, 2}}, "k.weight_global_scale": {layout.F32, []int{1}},
	}},
	"ModelOpt NVFP4": {"nvfp4", "k.weight", "k.weight_scale_2", []string{"k.weight_scale"}, map[string]stored{
		"k.weight": {layout.U8, []int{8, 16}}, "k.weight_scale": {layout.F8_E4M3, []int{8, 2}}, "k.weight_scale_2": {layout.F32, nil}, "k.input_scale": {layout.F32, nil},
	}},
	"GGUF NVFP4": {"nvfp4", "blk.0.ffn_up.weight", "blk.0.ffn_up.scale", []string{"blk.0.ffn_up.input_scale"}, map[string]stored{
		"blk.0.ffn_up.weight": {layout.NVFP4, []int{8, 64}}, "blk.0.ffn_up.scale": {layout.F32, []int{1}}, "blk.0.ffn_up.input_scale": {layout.F32, []int{1}},
	}},
	"AWQ": {"awq-gptq", "q.qweight", "q.scales", []string{"q.qzeros"}, map[string]stored{
		"q.qweight": {layout.I32, []int{128, 2}}, "q.qzeros": {layout.I32, []int{1, 2}}, "q.scales": {layout.F16, []int{1, 16}}, "q.bias": {layout.F16, []int{16}},
	}},
	"GPTQ": {"awq-gptq", "q.qweight", "q.scales", []string{"q.qzeros", "q.g_idx"}, map[string]stored{
		"q.qweight": {layout.I32, []int{16, 16}}, "q.qzeros": {layout.I32, []int{1, 2}}, "q.scales": {layout.F16, []int{1, 16}}, "q.g_idx": {layout.I32, []int{128}},
	}},
	"bitsandbytes NF4": {"bnb-4bit", "q.weight", "q.weight.absmax", []string{"q.weight.quant_map", "q.weight.nested_absmax", "q.weight.nested_quant_map", "q.weight.quant_state.bitsandbytes__nf4"}, map[string]stored{
		"q.weight": {layout.U8, []int{128, 1}}, "q.weight.absmax": {layout.U8, []int{4}}, "q.weight.quant_map": {layout.F32, []int{16}},
		"q.weight.nested_absmax": {layout.F32, []int{1}}, "q.weight.nested_quant_map": {layout.F32, []int{256}}, "q.weight.quant_state.bitsandbytes__nf4": {layout.U8, []int{90}},
	}},
	"bitsandbytes int8": {"bnb-int8", "q.weight", "q.SCB", []string{"q.weight_format"}, map[string]stored{
		"q.weight": {layout.I8, []int{8, 8}}, "q.SCB": {layout.F32, []int{8}}, "q.weight_format": {layout.U8, nil},
	}},
	"MLX": {"mlx", "embed.weight", "embed.scales", []string{"embed.biases"}, map[string]stored{
		"embed.weight": {layout.U32, []int{8, 8}}, "embed.scales": {layout.BF16, []int{8, 1}}, "embed.biases": {layout.BF16, []int{8, 1}}, "embed.bias": {layout.BF16, []int{8}},
	}},
	"gpt-oss": {"mxfp4", "experts.down_proj_blocks", "experts.down_proj_scales", nil, map[string]stored{
		"experts.down_proj_blocks": {layout.U8, []int{2, 8, 1, 16}}, "experts.down_proj_scales": {layout.U8, []int{2, 8, 1}}, "experts.down_proj_bias": {layout.BF16, []int{2, 8}},
	}},
	"HQQ": {"hqq", "q.W_q", "q.scale", []string{"q.zero"}, map[string]stored{
		"q.W_q": {layout.U8, []int{32, 8}}, "q.scale": {layout.F16, []int{8, 1}}, "q.zero": {layout.F16, []int{8, 1}},
	}},
	"exllamav3": {"exl3", "q.trellis", "q.suh", []string{"q.svh"}, map[string]stored{
		"q.trellis": {layout.I16, []int{8, 8, 64}}, "q.suh": {layout.F16, []int{128}}, "q.svh": {layout.F16, []int{128}},
	}},
	"compressed-tensors marlin-24": {"marlin-24", "q.weight_packed", "q.scale_packed", []string{"q.meta"}, map[string]stored{
		"q.weight_packed": {layout.I32, []int{8, 128}}, "q.scale_packed": {layout.F16, []int{4, 64}}, "q.meta": {layout.I16, []int{64, 16}},
	}},
	"compressed-tensors sparse-bitmask": {"sparse", "q.weight.compressed", "q.weight.bitmask", []string{"q.weight.shape", "q.weight.row_offsets"}, map[string]stored{
		"q.weight.compressed": {layout.BF16, []int{2048}}, "q.weight.bitmask": {layout.U8, []int{64, 8}}, "q.weight.shape": {layout.I64, []int{2}}, "q.weight.row_offsets": {layout.I64, []int{64}},
	}},
	"TensorRT-LLM FP8": {"fp8", "q.weight", "q.weights_scaling_factor", nil, map[string]stored{
		"q.weight": {layout.F8_E4M3, []int{8, 8}}, "q.weights_scaling_factor": {layout.F32, []int{1}}, "q.activation_scaling_factor": {layout.F32, []int{1}},
	}},
	"EETQ": {"int", "q.weight", "q.weight_scales", nil, map[string]stored{
		"q.weight": {layout.I8, []int{8, 8}}, "q.weight_scales": {layout.F16, []int{8}},
	}},
	"Quark": {"int", "q.weight", "q.weight_quantizer.scale", []string{"q.weight_quantizer.zero_point"}, map[string]stored{
		"q.weight": {layout.I8, []int{8, 8}}, "q.weight_quantizer.scale": {layout.F32, nil}, "q.weight_quantizer.zero_point": {layout.I32, nil},
	}},
	"Nunchaku": {"svdquant", "q.qweight", "q.wscales", []string{"q.wcscales"}, map[string]stored{
		"q.qweight": {layout.I8, []int{64, 128}}, "q.wscales": {layout.F8_E4M3, []int{16, 64}}, "q.wcscales": {layout.BF16, []int{64}}, "q.bias": {layout.BF16, []int{64}},
	}},
	"Marlin": {"marlin", "q.B", "q.s", nil, map[string]stored{
		"q.B": {layout.I32, []int{16, 128}}, "q.s": {layout.F16, []int{4, 64}},
	}},
	"torchao": {"torchao", "q._weight_qdata", "q._weight_scale", []string{"q._weight_zero_point"}, map[string]stored{
		"q._weight_qdata": {layout.I8, []int{8, 8}}, "q._weight_scale": {layout.BF16, []int{8, 1}}, "q._weight_zero_point": {layout.I8, []int{8, 1}},
	}},
	"Quanto int4": {"quanto", "q.weight._data._data", "q.weight._scale", []string{"q.weight._shift"}, map[string]stored{
		"q.weight._data._data": {layout.U8, []int{32, 64}}, "q.weight._scale": {layout.F16, []int{64, 1}}, "q.weight._shift": {layout.F16, []int{64, 1}}, "q.input_scale": {layout.F32, nil},
	}},
	"Quanto int8": {"quanto", "q.weight._data", "q.weight._scale", nil, map[string]stored{
		"q.weight._data": {layout.I8, []int{64, 64}}, "q.weight._scale": {layout.F16, []int{64, 1}},
	}},
	"HIGGS": {"higgs", "q.weight", "q.tables2", []string{"q.tables", "q.scales"}, map[string]stored{
		"q.weight": {layout.I16, []int{64, 64}}, "q.tables": {layout.F16, []int{16, 2}}, "q.tables2": {layout.F16, []int{16, 16, 2}}, "q.scales": {layout.F16, []int{4, 64}},
	}},
	"exllamav2": {"exl2", "q.q_weight", "q.q_scale", []string{"q.q_scale_max", "q.q_groups", "q.q_invperm"}, map[string]stored{
		"q.q_weight": {layout.I32, []int{32, 64}}, "q.q_scale": {layout.I32, []int{4, 8}}, "q.q_scale_max": {layout.F16, []int{4}}, "q.q_groups": {layout.I16, []int{8}}, "q.q_invperm": {layout.I32, []int{256}},
	}},
	"AQLM": {"aqlm", "q.codes", "q.codebooks", []string{"q.scales"}, map[string]stored{
		"q.codes": {layout.I8, []int{256, 32, 2}}, "q.codebooks": {layout.F16, []int{2, 256, 1, 8}}, "q.scales": {layout.F16, []int{256, 1, 1, 1}},
	}},
	"VPTQ": {"vptq", "q.indices", "q.centroids.weight", []string{"q.weight_scale", "q.weight_bias"}, map[string]stored{
		"q.indices": {layout.I16, []int{1, 512, 64}}, "q.centroids.weight": {layout.F16, []int{1, 8192}}, "q.weight_scale": {layout.F16, []int{512}}, "q.weight_bias": {layout.F16, []int{512}},
	}},
	"QuIP#": {"quip", "q.Qidxs", "q.SU", []string{"q.SV", "q.Wscale"}, map[string]stored{
		"q.Qidxs": {layout.I64, []int{64, 4}}, "q.SU": {layout.F16, []int{256}}, "q.SV": {layout.F16, []int{64}}, "q.Wscale": {layout.F32, nil},
	}},
	"no part of anything": {"", "", "", nil, map[string]stored{
		"a.weight": {layout.BF16, []int{8, 8}}, "a.weight_scale": {layout.F32, nil}, "scale": {layout.F32, []int{8}}, "b.weight": {layout.U8, []int{8}},
		"c.weight": {layout.U32, []int{2}}, "c.scales": {layout.F16, []int{65}}, // more scales than bits
		"d.scale": {layout.F32, nil}, "d.zero": {layout.F32, nil}, "e.weight": {layout.I8, []int{8, 8}}, "f.weight": {layout.NVFP4, []int{1, 64}},
		".scale": {layout.F32, nil}, "": {layout.F32, nil}, "logit_scale": {layout.F32, nil}, "norm.weight": {layout.F32, []int{8}}, "norm.scale": {layout.F32, []int{8}},
		"v.codes": {layout.I64, []int{8, 8}}, "v.codebooks": {layout.F32, []int{8}}, "B": {layout.I32, []int{8}}, "s": {layout.F32, nil},
	}},
}

func TestFind(t *testing.T) {
	for name, c := range checkpoints {
		t.Run(name, func(t *testing.T) {
			lookup := func(name string) (layout.DType, []int, bool) {
				s, ok := c.all[name]
				return s.d, s.shape, ok
			}
			want := map[string]bool{c.codes: c.codes != "", c.scale: c.scale != ""}
			for _, name := range c.parts {
				want[name] = true
			}
			for name := range c.all {
				p, ok := Find(name, lookup)
				if ok != want[name] || ok && p != (Part{c.scheme, c.codes, c.scale}) {
					t.Errorf("%s: %+v, %t", name, p, ok)
				}
			}
			if p, ok := Find("missing.weight", lookup); ok {
				t.Errorf("%+v", p)
			}
		})
	}
}
