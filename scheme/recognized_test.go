package scheme_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/scheme"
)

// config returns a config.json with a quantization_config of these members.
func config(members string) string { return `{"quantization_config":{` + members + `}}` }

// outcome returns the scheme of the first weight, or its error.
func outcome(table *scheme.Table) string {
	if table.Len() == 0 {
		return "no weight"
	}
	w := table.Weight(0)
	if w.Err != nil {
		return w.Err.Error()
	}
	return w.Scheme
}

// held compares what is found with what is wanted: the name of a scheme, or a part of the error.
func held(t *testing.T, name, got, want string) {
	t.Helper()
	if got != want && (!strings.Contains(got, want) || !strings.Contains(want, " ")) {
		t.Errorf("%s: %s\nwant %s", name, got, want)
	}
}

// known are weights with all their parts, as their writers name them, and the configuration that goes with them.
var known = []struct {
	scheme, config string
	tensors        []stored
}{
	{"fp8", config(`"quant_method":"fp8","weight_block_size":[128,128]`), fp8("weight_scale_inv", layout.F32, 2, 2)},
	{"fp8", `{}`, fp8("weight_scale", layout.F32)},
	{"bnb-int8", config(`"quant_method":"bitsandbytes"`), []stored{{"a.weight", layout.I8, []int{8, 4}, nil}, {"a.SCB", layout.F32, []int{8}, nil}}},
	{"int-quantized", config(`"quant_method":"compressed-tensors","format":"int-quantized"`), []stored{{"a.weight", layout.I8, []int{8, 4}, nil}, {"a.weight_scale", layout.F32, []int{8, 1}, nil}}},
	{"pack-quantized", config(`"quant_method":"compressed-tensors","format":"pack-quantized"`), packed(int64s(8, 128), 8, 1)},
	{"awq", config(`"quant_method":"awq","bits":4,"group_size":128`), awq([]int{128, 2}, []int{1, 2}, []int{1, 16})},
	{"gptq", config(`"quant_method":"gptq","bits":4,"group_size":128`), awq([]int{16, 16}, []int{1, 2}, []int{1, 16})},
	{"mlx-affine", `{"quantization":{"group_size":64,"bits":4}}`, []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.scales", layout.BF16, []int{8, 1}, nil}, {"a.biases", layout.BF16, []int{8, 1}, nil}}},
	{"nvfp4", `{}`, []stored{{"a.weight", layout.U8, []int{8, 16}, nil}, {"a.weight_scale", layout.F8_E4M3, []int{8, 2}, nil}, {"a.weight_scale_2", layout.F32, nil, nil}}},
	{"nvfp4", `{}`, []stored{{"a.weight", layout.NVFP4, []int{8, 64}, nil}, {"a.scale", layout.F32, []int{1}, nil}}},
	{"mxfp4", `{}`, []stored{{"a_blocks", layout.U8, []int{2, 8, 3, 16}, nil}, {"a_scales", layout.U8, []int{2, 8, 3}, nil}}},
	{"bitnet", config(`"quant_method":"bitnet"`), ternary(1)},
}

// TestUnknownCompanions: a tensor beside the codes that is neither a part that is known nor harmless makes the weight an
// error that names it, and the caller may leave it out. The first ones are those of real writers: experts of MLX, ModelOpt's
// NVFP4_SVD and AWQ, auto-round's FP8, rotations of auto-round.
func TestUnknownCompanions(t *testing.T) {
	for _, k := range known {
		stem := "a"
		if !strings.HasPrefix(k.tensors[0].name, "a.") {
			stem = "" // of a_blocks
		}
		for _, end := range []string{
			".global_scale", ".svdquant_lora_a", ".svdquant_lora_b", ".pre_quant_scale", ".weight_zp", ".hadamard_matrix",
			".weight_codebook", ".weight_outliers", ".weight.delta", ".scale_3", ".lora_A.default", ".rotation.matrix", ".weight_scale_3", "_residual", ".weights", ".qscale",
		} {
			name := stem + end
			if stem == "" {
				name = "a" + strings.ReplaceAll(end, ".", "_")
			}
			beside := stored{name, layout.F32, []int{8}, nil}
			list := append([]stored{beside}, k.tensors...)
			if got := outcome(find(t, k.config, list...)); !strings.Contains(got, `tensor "`+name+`" beside the codes is not known`) || !strings.Contains(got, "--ignore-part") {
				t.Errorf("%s with %s: %s", k.scheme, name, got)
			}
			if got := outcome(findWithout(t, name, k.config, list...)); got != k.scheme {
				t.Errorf("%s without %s: %s", k.scheme, name, got)
			}
		}
		for _, end := range []string{".bias", ".input_scale", ".k_scale", ".v_scale", ".output_scale", ".norm.weight", ".sub.bias", "2.weight_scale_3"} {
			beside := stored{stem + end, layout.BF16, []int{8}, nil}
			if stem == "" {
				beside.name = "a_bias"
			}
			list := append([]stored{beside}, k.tensors...)
			if end == ".sub.bias" {
				list = append(list, stored{stem + ".sub.weight", layout.BF16, []int{8, 8}, nil})
			}
			if got := outcome(find(t, k.config, list...)); got != k.scheme {
				t.Errorf("%s beside %s: %s", k.scheme, beside.name, got)
			}
		}
	}
}

// TestTwoScales: a weight with two scales is none that can be decoded: nobody knows which one counts, or whether both do.
func TestTwoScales(t *testing.T) {
	one := []int{1}
	for name, list := range map[string][]stored{
		"weight_scale_inv and weight_scale":   append(fp8("weight_scale_inv", layout.F32, 2, 2), stored{"a.weight_scale", layout.F32, one, nil}),
		"weight_scale_inv and scale":          append(fp8("weight_scale_inv", layout.F32, 2, 2), stored{"a.scale", layout.F32, one, nil}),
		"weight_scale and weight_scale_2":     append(fp8("weight_scale", layout.F32), stored{"a.weight_scale_2", layout.F32, one, nil}),
		"SCB and weight_scale":                {{"a.weight", layout.I8, []int{8, 4}, nil}, {"a.SCB", layout.F32, []int{8}, nil}, {"a.weight_scale", layout.F32, one, nil}},
		"weight_scale_2 and global_scale":     {{"a.weight", layout.U8, []int{8, 16}, nil}, {"a.weight_scale", layout.F8_E4M3, []int{8, 2}, nil}, {"a.weight_scale_2", layout.F32, nil, nil}, {"a.weight_global_scale", layout.F32, nil, nil}},
		"scales of MLX and of Ollama":         {{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.scales", layout.BF16, []int{8, 1}, nil}, {"a.biases", layout.BF16, []int{8, 1}, nil}, {"a.weight.scale", layout.BF16, []int{8, 1}, nil}},
		"a group index that awq has not":      append(awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), stored{"a.g_idx", layout.I32, []int{128}, nil}),
		"a zero point that nvfp4 has not":     {{"a.weight", layout.U8, []int{8, 16}, nil}, {"a.weight_scale", layout.F8_E4M3, []int{8, 2}, nil}, {"a.weight_scale_2", layout.F32, nil, nil}, {"a.weight_zero_point", layout.U8, nil, nil}},
		"a nested scale of scales that float": bnb(state("nf4", ""), stored{"a.weight.absmax", layout.F32, []int{3}, nil}, stored{"a.weight.nested_absmax", layout.F32, one, nil}),
	} {
		said := `{}`
		if strings.Contains(name, "MLX") {
			said = `{"quantization":{"group_size":64,"bits":4}}`
		}
		got := outcome(find(t, said, list...))
		if !strings.Contains(got, "is not known") && !strings.Contains(got, "which have none") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestConfigurationIsNeeded: what the tensors do not tell, and no configuration says, is not guessed.
func TestConfigurationIsNeeded(t *testing.T) {
	mxfp4 := []stored{{"a.weight_packed", layout.U8, []int{8, 32}, nil}, {"a.weight_scale", layout.U8, []int{8, 2}, nil}}
	for name, tt := range map[string]struct {
		config  string
		tensors []stored
		want    string
	}{
		"gptq":                               {`{}`, awq([]int{16, 16}, []int{1, 2}, []int{1, 16}), "quantize_config.json beside the file says whether zero points are stored less one"},
		"gptq without a method":              {config(`"bits":4,"sym":true`), awq([]int{16, 16}, []int{1, 2}, []int{1, 16}), "quantization_config has no quant_method"},
		"gptq of 5 bits by anybody":          {config(`"quant_method":"gptq","bits":5`), awq([]int{20, 32}, []int{1, 5}, []int{1, 32}), "neither meta.quantizer nor provider"},
		"gptq of 5 bits by GPTQModel":        {config(`"quant_method":"gptq","bits":5,"meta":{"quantizer":["gptqmodel:7.7.0"]}`), awq([]int{20, 32}, []int{1, 5}, []int{1, 32}), "gptq"},
		"awq gemv without a group":           {config(`"quant_method":"awq","version":"gemv"`), awq([]int{16, 16}, []int{16, 1}, []int{16, 8}), "no group_size"},
		"mlx":                                {`{}`, known[7].tensors, "stand in no configuration"},
		"mlx without biases or mode":         {`{"quantization":{"group_size":32,"bits":4}}`, []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.scales", layout.U8, []int{8, 2}, nil}}, "codes of mode affine without biases"},
		"bitnet":                             {`{}`, ternary(1), "is not decoded"},
		"bitnet whose codes are floats":      {`{}`, unpacked(layout.BF16, 1), "without a configuration (config.json) that says what it does"},
		"mxfp4, which mxint4 looks like":     {`{}`, mxfp4, "mxfp4 or mxint4"},
		"mxfp4 of compressed-tensors":        {config(`"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized"`), mxfp4, "mxfp4"},
		"mxfp4 of a format that is not said": {config(`"quant_method":"compressed-tensors"`), mxfp4, "codes of mxfp4 in a checkpoint of compressed-tensors"},
		"mxfp4 of auto-round":                {config(`"quant_method":"auto-round","data_type":"mx_fp"`), mxfp4, "mxfp4"},
		"mxfp4 of another method":            {config(`"quant_method":"mxfp4"`), mxfp4, "mxfp4 or mxint4"},
		"packed codes of another type":       {`{}`, []stored{{"a.weight_packed", layout.U32, []int{8, 16}, nil}, {"a.weight_scale", layout.BF16, []int{8, 1}, nil}}, `U32 beside "a.weight_scale"`},
		"act-order without its index":        {config(`"quant_method":"gptq","desc_act":true`), awq([]int{16, 16}, []int{2, 2}, []int{2, 16}), "without the group index (.g_idx)"},
		"a format that is no name":           {config(`"quant_method":"gptq","checkpoint_format":2`), awq([]int{16, 16}, []int{1, 2}, []int{1, 16}), "checkpoint_format is 2, no name"},
		"codes beside codes":                 {`{}`, append(fp8("weight_scale", layout.F32), stored{"a.weight_packed", layout.I32, []int{8, 16}, nil}), "has codes of the same weight"},
		"mxint4 of auto-round":               {config(`"quant_method":"auto-round","data_type":"mx_int"`), mxfp4, `quantized as "mx_int", which is not decoded (data_type)`},
		"compressed-tensors without method":  {config(`"format":"pack-quantized","config_groups":{}`), packed(int64s(8, 128), 8, 1), "quantization_config has no quant_method"},
	} {
		held(t, name, outcome(find(t, tt.config, tt.tensors...)), tt.want)
	}
}

// TestContradictions: a configuration that says something else than the tensors, or something that is not known, is an error
// that names the key.
func TestContradictions(t *testing.T) {
	gptq, awqs, ints, mlx := awq([]int{16, 16}, []int{1, 2}, []int{1, 16}), awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), packed(int64s(8, 128), 8, 1), known[7].tensors
	nvfp4 := known[8].tensors
	for name, tt := range map[string]struct {
		config  string
		tensors []stored
		want    string
	}{
		"blocks of no rows":            {config(`"quant_method":"fp8","weight_block_size":[0,128]`), fp8("weight_scale_inv", layout.F32, 2, 2), "weight_block_size is [0,128]"},
		"blocks of negative rows":      {config(`"quant_method":"fp8","weight_block_size":[-128,128]`), fp8("weight_scale_inv", layout.F32, 2, 2), "weight_block_size is [-128,128]"},
		"blocks of two keys":           {config(`"quant_method":"fp8","weight_block_size":[128,128],"group_size":[128]`), fp8("weight_scale_inv", layout.F32, 2, 2), "group_size is [128], not two sizes"},
		"blocks of one side":           {config(`"quant_method":"fp8","weight_block_size":[128]`), fp8("weight_scale_inv", layout.F32, 2, 2), "weight_block_size is [128]"},
		"blocks that are a number":     {config(`"quant_method":"fp8","weight_block_size":128`), fp8("weight_scale_inv", layout.F32, 2, 2), "weight_block_size is 128"},
		"no blocks":                    {config(`"quant_method":"fp8","weight_block_size":null`), fp8("weight_scale", layout.F32), "fp8"},
		"awq by gptq":                  {config(`"quant_method":"gptq"`), awqs, "codes of awq in a checkpoint of gptq (quant_method)"},
		"gptq by awq":                  {config(`"quant_method":"awq"`), gptq, "gptq in the format"},
		"fp8 by awq":                   {config(`"quant_method":"awq"`), fp8("weight_scale", layout.F32), "codes of fp8 in a checkpoint of awq (quant_method)"},
		"sym of a string":              {config(`"quant_method":"gptq","sym":"yes"`), gptq, "sym of yes"},
		"awq gemm that is gemv":        {config(`"quant_method":"awq","version":"gemv","group_size":128`), awqs, "not the shape of version gemv"},
		"awq for a kernel":             {config(`"quant_method":"awq","version":"exllamav2"`), awqs, "awq"},
		"awq of marlin":                {config(`"quant_method":"awq","version":"marlin"`), awqs, `awq of version "marlin"`},
		"awq that auto-round packs":    {config(`"quant_method":"auto-round","packing_format":"auto_round:auto_gptq"`), awqs, "configuration's packing_format is"},
		"a packing_format":             {config(`"quant_method":"auto-round","packing_format":"auto_round:exllama"`), gptq, `format "auto_round:exllama", which is not known (packing_format)`},
		"a data_type":                  {config(`"quant_method":"auto-round","data_type":"int_asym_dq"`), gptq, `"int_asym_dq", which is not decoded (data_type)`},
		"a checkpoint_format":          {config(`"quant_method":"gptq","checkpoint_format":"marlin"`), gptq, `"marlin", which is not known (checkpoint_format)`},
		"a format of ct":               {config(`"quant_method":"compressed-tensors","format":"pack-magic"`), ints, `"pack-magic", which is not decoded (format)`},
		"another format of ct":         {config(`"quant_method":"compressed-tensors","format":"int-quantized"`), ints, "codes of pack-quantized in a checkpoint of compressed-tensors"},
		"another format of a group":    {config(`"quant_method":"compressed-tensors","config_groups":{"g":{"format":"float-quantized","weights":{"num_bits":4}}}`), ints, "codes of pack-quantized in a checkpoint of compressed-tensors"},
		"another type of ct":           {config(`"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"weights":{"num_bits":4,"type":"float"}}}`), ints, "(format, type)"},
		"a version of ct":              {config(`"quant_method":"compressed-tensors","version":"newest"`), ints, `version of compressed-tensors is "newest"`},
		"an algorithm of ModelOpt":     {`{"quantization":{"quant_algo":"W4A8_AWQ"}}`, nvfp4, `"w4a8_awq", which is not decoded (quant_algo)`},
		"another of ModelOpt":          {`{"quantization":{"quant_algo":"FP8"}}`, nvfp4, "codes of nvfp4 in a checkpoint of modelopt"},
		"one of a layer":               {`{"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"a":{"quant_algo":"NVFP4_SVD"}}}}`, nvfp4, `"nvfp4_svd", which is not decoded (quant_algo)`},
		"a mode of MLX with biases":    {`{"quantization":{"group_size":64,"bits":4,"mode":"ternary9"}}`, mlx, `mode "ternary9"`},
		"a mode that has no biases":    {`{"quantization":{"group_size":32,"bits":4,"mode":"mxfp4"}}`, mlx, "beside codes of mode mxfp4, which has none"},
		"a mode with other bits":       {`{"quantization":{"group_size":64,"bits":4,"mode":"mxfp8"}}`, []stored{mlx[0], {"a.scales", layout.U8, []int{8, 1}, nil}}, "codes of mode mxfp8 in groups of 64 with 4 bits"},
		"awq whose codes are F16":      {config(`"quant_method":"awq"`), []stored{{"a.qweight", layout.F16, []int{128, 2}, nil}, awqs[1], awqs[2]}, `F16 beside "a.scales"`},
		"awq without scales":           {config(`"quant_method":"awq"`), awqs[:2], `codes of awq without their scale "a.scales"`},
		"gptq without scales":          {config(`"quant_method":"gptq"`), gptq[:2], "codes of gptq without their scale"},
		"one of the two":               {`{}`, gptq[:2], "codes of awq or gptq without their scale"},
		"gptq of fewer bits":           {config(`"quant_method":"gptq","bits":8`), gptq, "codes \"a.qweight\" have 4 bits, and 8 by the configuration"},
		"a shape that does not fit":    {config(`"quant_method":"compressed-tensors"`), packed(int64s(9, 128), 8, 1), `as "a.weight_shape" has it`},
		"biases that do not fit":       {`{"quantization":{"group_size":64,"bits":4}}`, []stored{mlx[0], mlx[1], {"a.biases", layout.BF16, []int{8, 2}, nil}}, `bias "a.biases"`},
		"an override inherits nothing": {`{"quantization":{"group_size":32,"bits":4,"mode":"mxfp4","a":{"group_size":64,"bits":4}}}`, mlx, "mlx-affine"},
	} {
		held(t, name, outcome(find(t, tt.config, tt.tensors...)), tt.want)
	}
}

// TestSymmetric: the zero point of symmetric codes is checked, and so is that of a configuration that does not say, since
// AutoGPTQ, GPTQModel and auto-round take such codes for symmetric.
func TestSymmetric(t *testing.T) {
	for said, want := range map[string]bool{`"sym":true`: true, `"sym":false`: false, `"sym":null`: true, `"bits":4`: true, `"sym":true,"dynamic":{"+:a":{"sym":false}}`: false} {
		w := find(t, config(`"quant_method":"gptq",`+said), awq([]int{16, 16}, []int{1, 2}, []int{1, 16})...).Weight(0)
		if w.Err != nil || strings.Contains(offset(w, 3), "that are symmetric") != want || want && (offset(w, 7) != "8" || offset(w, 8) != "8") {
			t.Errorf("%s: %v, %+v", said, w.Err, w.Form)
		}
	}
	for layer, want := range map[string]bool{"a": false, "b.a": true} {
		table := find(t, config(`"quant_method":"auto-round","packing_format":"auto_round","sym":false,"extra_config":{"a":{"sym":false},".*b\\.a.*":{"sym":true}}`),
			stored{layer + ".qweight", layout.I32, []int{16, 16}, nil}, stored{layer + ".qzeros", layout.I32, []int{1, 2}, nil}, stored{layer + ".scales", layout.F16, []int{1, 16}, nil})
		if w := table.Weight(0); w.Err != nil || strings.Contains(offset(w, 3), "that are symmetric") != want || !want && offset(w, 3) != "3" {
			t.Errorf("%s: %v, %+v", layer, w.Err, w.Form)
		}
	}
}

// TestOverridesOfNoLayer: a path that no layer has is told, and a weight whose shape its parameters explain as well is an
// error: 8 × 512 codes of 4 bits in groups of 64 look like 8 × 256 of 8 bits in groups of 32.
func TestOverridesOfNoLayer(t *testing.T) {
	both := []stored{{"a.weight", layout.U32, []int{8, 64}, nil}, {"a.scales", layout.BF16, []int{8, 8}, nil}, {"a.biases", layout.BF16, []int{8, 8}, nil}}
	for over, want := range map[string]string{
		`"a":{"group_size":32,"bits":8}`:        "mlx-affine",
		`"x.a":{"group_size":32,"bits":8}`:      `may have 8 bits in groups of 32: the configuration says so of "x.a", which is no layer`,
		`"x.a":{"group_size":128,"bits":8}`:     "mlx-affine",
		`"x.a":false`:                           "mlx-affine",
		`"x.a":{"group_size":32,"bits":"8"}`:    "mlx-affine",
		`"a.weight":{"group_size":32,"bits":8}`: "mlx-affine",
	} {
		table := find(t, `{"quantization":{"group_size":64,"bits":4,`+over+`}}`, both...)
		held(t, over, outcome(table), want)
		if astray := strings.HasPrefix(over, `"x`); astray != (table.Unmatched == 1) || astray && table.UnmatchedPath != "x.a" {
			t.Errorf("%s: %d unmatched, %q", over, table.Unmatched, table.UnmatchedPath)
		}
	}
}

// TestComfyDescriptions: the descriptions of a file and its quantized layers are the same layers, once a prefix that ComfyUI
// knows is stripped.
func TestComfyDescriptions(t *testing.T) {
	header := func(layers string) string {
		return `{"_quantization_metadata":"{\"layers\":{` + strings.ReplaceAll(layers, `"`, `\"`) + `}}"}`
	}
	at := func(layer string) []stored {
		return []stored{{layer + ".weight", layout.F8_E4M3, []int{8, 8}, nil}, {layer + ".weight_scale", layout.F32, nil, nil}}
	}
	const fine, hard = `"a":{"format":"float8_e4m3fn"}`, `"a":{"format":"nvfp4"}`
	for name, tt := range map[string]struct {
		config  string
		tensors []stored
		want    string
	}{
		"as it is":                     {header(fine), at("a"), "fp8"},
		"after a prefix":               {header(fine), at("model.diffusion_model.a"), "fp8"},
		"refused after a prefix":       {header(hard), at("model.diffusion_model.a"), `ComfyUI's format "nvfp4"`},
		"after a prefix nobody knows":  {header(hard), at("my.a"), "describes other layers, and not this one"},
		"another layer":                {header(fine), append(at("b"), at("a")...), "describes other layers, and not this one"},
		"a layer that is not there":    {header(fine + `,"b":{"format":"float8_e4m3fn"}`), at("a"), `describes layer "b", which the file does not have`},
		"a layer that is to be left":   {header(fine + `,"b":{"format":"float8_e4m3fn"}`), at("a"), "fp8"},
		"integers without a scale":     {header(`"a":{"format":"int8_tensorwise"}`), []stored{{"a.weight", layout.I8, []int{8, 8}, nil}}, "I8 without a scale"},
		"another type":                 {header(`"a":{"format":"int8_tensorwise"}`), at("a"), "which ComfyUI's description calls int8_tensorwise"},
		"two descriptions that differ": {header(fine), append(at("a"), comfy(`{"format":"float8_e4m3fn","group_size":8}`)), "describe the layer differently"},
	} {
		ignored := ""
		if name == "a layer that is to be left" {
			ignored = "b"
		}
		held(t, name, outcome(findWithout(t, ignored, tt.config, tt.tensors...)), tt.want)
	}
	layers, tensors := fine, at("a")
	for _, name := range strings.Split("bcdefghi", "") {
		layers, tensors = layers+`,"`+name+`":{"format":"float8_e4m3fn"}`, append(tensors, stored{name + ".weight", layout.BF16, []int{8, 8}, nil})
	}
	for i, w := range weights(find(t, header(layers), tensors...)) { // plain ones in the order of their paths
		if fine := i == 0; string(w.Name) != "abcdefghi"[i:i+1]+".weight" || (w.Err == nil) != fine || !fine && !strings.Contains(w.Err.Error(), "describes it as quantized") {
			t.Errorf("weight %d is %s: %v", i, w.Name, w.Err)
		}
	}
}

// TestNamesakes: a weight and a tensor that have the same name are both refused.
func TestNamesakes(t *testing.T) {
	gptq := awq([]int{16, 16}, []int{1, 2}, []int{1, 16})
	plain := stored{"a.weight", layout.F16, []int{2}, nil}
	for name, list := range map[string][]stored{
		"whole":                  append(gptq[:3:3], plain),
		"without scales":         append(gptq[:2:2], plain),
		"codes of another type":  {{"a.qweight", layout.F32, []int{16, 16}, nil}, gptq[1], gptq[2], plain},
		"a scale of that name":   {gptq[0], gptq[1], {"a.weight", layout.F16, []int{1, 16}, nil}},
		"other codes, one scale": append(fp8("weight_scale", layout.F32), stored{"a.weight_packed", layout.I32, []int{8, 16}, nil}),
	} {
		table := find(t, config(`"quant_method":"gptq","bits":4`), list...)
		refused := 0
		for i, x := range list {
			if of, ok := table.WeightOf(uint32(i)); strings.HasSuffix(x.name, "weight") || strings.HasSuffix(x.name, "weight_packed") {
				if !ok || table.Err(of) == nil {
					t.Errorf("%s: %s is shown", name, x.name)
				}
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%s: %d", name, refused)
		}
	}
}

// TestOneThingChanged: checkpoints of which one tensor or key is not as their writers have it. Each was decoded to other numbers.
func TestOneThingChanged(t *testing.T) {
	awqs, gptq := awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), awq([]int{16, 16}, []int{1, 2}, []int{1, 16})
	const ct = `"quant_method":"compressed-tensors","version":"0.20.0","config_groups":{"g":{"weights":{`
	ints := func(zero layout.DType, shape ...int) []stored {
		return []stored{{"a.weight", layout.I8, []int{8, 64}, nil}, {"a.weight_scale", layout.F32, []int{8, 2}, nil}, {"a.weight_zero_point", zero, shape, nil}}
	}
	bytes8 := []stored{{"a.weight", layout.F8_E4M3, []int{8, 64}, nil}, {"a.weight_scale", layout.U8, []int{8, 2}, nil}}
	for name, tt := range map[string]struct {
		config  string
		tensors []stored
		want    string
	}{
		"bits of another method":                {config(ct + `"num_bits":4,"bits":3,"w_bit":8}}}`), packed(int64s(8, 128), 8, 1), "pack-quantized"},
		"bits that older releases would hold":   {config(ct + `"num_bits":7}}}`), []stored{{"a.weight_packed", layout.I32, []int{8, 24}, nil}, {"a.weight_shape", layout.I64, []int{2}, int64s(8, 96)}, {"a.weight_scale", layout.BF16, []int{8, 1}, nil}}, "24 words a row do not hold"},
		"groups that are not whole":             {config(ct + `"num_bits":4,"group_size":96}}}`), packed(int64s(8, 128), 8, 2), "are not the 2 groups"},
		"groups of awq that are not whole":      {config(`"quant_method":"awq","group_size":96`), awq([]int{128, 2}, []int{2, 2}, []int{2, 16}), "are not the 2 groups"},
		"awq in the shape of gemv, unsaid":      {config(`"quant_method":"awq","group_size":128`), awq([]int{16, 16}, []int{16, 1}, []int{16, 8}), "not the shape of version gemm (none is said)"},
		"two numbers of bits":                   {config(`"quant_method":"awq","bits":4,"w_bit":8`), awqs, "bits of 4, and w_bit of 8"},
		"a group size that is a list of gptq":   {config(`"quant_method":"gptq","group_size":[128]`), gptq, "group_size is [128]"},
		"two formats of gptq":                   {config(`"quant_method":"gptq","checkpoint_format":"gptq_v2","format":"gptq"`), gptq, `checkpoint_format is "gptq_v2", and its format "gptq"`},
		"columns that no index tells":           {config(`"quant_method":"gptq","bits":4`), awq([]int{5, 16}, []int{1, 2}, []int{1, 16}), "without a group index (.g_idx)"},
		"zero points that are floats":           {config(ct + `"symmetric":false,"group_size":32}}}`), ints(layout.F32, 8, 2), "zero points \"a.weight_zero_point\" of type F32"},
		"zero points of symmetric codes":        {config(ct + `"symmetric":true,"group_size":32}}}`), ints(layout.I8, 8, 2), "by the configuration there are none (symmetric)"},
		"zero points in another shape":          {config(ct + `"symmetric":false,"group_size":32}}}`), ints(layout.I8, 16, 1), "does not fit the scale's"},
		"zero points of fp8":                    {`{}`, append(fp8("weight_scale", layout.F32), stored{"a.weight_zero_point", layout.F32, nil, nil}), "beside codes of type F8_E4M3"},
		"a scale of bytes, unsaid":              {`{}`, bytes8, "no configuration (config.json) that says they are powers of two"},
		"a scale of bytes of another format":    {config(`"quant_method":"compressed-tensors","format":"float-quantized"`), bytes8, "says they are powers of two"},
		"a scale of bytes in groups of 16":      {config(`"quant_method":"compressed-tensors","format":"mxfp8-quantized"`), []stored{bytes8[0], {"a.weight_scale", layout.U8, []int{8, 4}, nil}}, "are not the 4 groups"},
		"a scale of bytes":                      {config(`"quant_method":"compressed-tensors","format":"mxfp8-quantized"`), bytes8, "fp8"},
		"other floats of 8 bits":                {config(`"quant_method":"fp8"`), []stored{{"a.weight", layout.F8_E5M2, []int{8, 8}, nil}, {"a.weight_scale", layout.F32, nil, nil}}, "codes \"a.weight\" of F8_E5M2 in a checkpoint of fp8"},
		"other floats of 8 bits, said":          {config(`"quant_method":"fp8","fmt":"e5m2"`), []stored{{"a.weight", layout.F8_E5M2, []int{8, 8}, nil}, {"a.weight_scale", layout.F32, nil, nil}}, "fp8"},
		"blocks of other sides":                 {config(`"quant_method":"fp8","weight_block_size":[16,16]`), []stored{{"a.weight", layout.F8_E4M3, []int{8, 64}, nil}, {"a.weight_scale_inv", layout.F32, []int{8, 4}, nil}}, "in blocks of [[16 16]]"},
		"floats where codes were":               {config(`"quant_method":"gptq"`), []stored{{"a.qweight", layout.F32, []int{16, 16}, nil}, gptq[1], gptq[2]}, `F32 beside "a.scales"`},
		"truth values where codes were":         {config(`"quant_method":"fp8"`), []stored{{"a.weight", layout.BOOL, []int{8, 8}, nil}, {"a.weight_scale", layout.F32, nil, nil}}, `BOOL beside "a.weight_scale"`},
		"powers of two where codes were":        {`{}`, []stored{{"a_blocks", layout.F8_E8M0, []int{2, 8, 3, 16}, nil}, {"a_scales", layout.U8, []int{2, 8, 3}, nil}}, `F8_E8M0 beside "a_scales"`},
		"experts of another type":               {config(`"quant_method":"fp8"`), []stored{{"experts", layout.U8, []int{2, 8, 8}, nil}, {"experts_scale_inv", layout.F32, []int{2, 1, 1}, nil}}, `U8 beside "experts_scale_inv"`},
		"floats beside a scale":                 {config(`"quant_method":"fp8"`), unpacked(layout.BF16, 1), `BF16 beside "a.weight_scale"`},
		"words of MLX that are floats":          {`{"quantization":{"group_size":64,"bits":4}}`, []stored{{"a.weight", layout.F32, []int{8, 8}, nil}, known[7].tensors[1], known[7].tensors[2]}, `F32 beside "a.scales"`},
		"NVFP4 whose scale is an integer":       {`{}`, []stored{{"a.weight", layout.NVFP4, []int{8, 64}, nil}, {"a.scale", layout.I32, []int{1}, nil}}, `NVFP4 beside "a.scale"`},
		"a weight of AutoBitLinear, unscaled":   {config(`"quant_method":"bitnet","linear_class":"autobitlinear"`), append(unpacked(layout.BF16, 1), stored{"b.weight", layout.BF16, []int{8, 8}, nil}), "floats without their scale (.weight_scale)"},
		"the same, beside an invalid version":   {config(`"quant_method":"bitnet","version":1,"linear_class":"autobitlinear"`), append(unpacked(layout.BF16, 1), stored{"b.weight", layout.BF16, []int{8, 8}, nil}), "floats without their scale (.weight_scale)"},
		"nested scales whose offset is missing": {`{}`, bnb(state("nf4", `,"nested_blocksize":256`), stored{"a.weight.absmax", layout.U8, []int{3}, nil}, stored{"a.weight.nested_absmax", layout.F32, []int{1}, nil}, stored{"a.weight.nested_quant_map", layout.F32, []int{256}, nil}), "with the nested_offset"},
		"ComfyUI's other floats of 8 bits":      {`{}`, append(fp8("weight_scale", layout.F32), comfy(`{"format":"float8_e5m2"}`)), "codes of F8_E4M3, which ComfyUI's description calls float8_e5m2"},
	} {
		table := find(t, tt.config, tt.tensors...)
		got := outcome(table)
		for i := 1; i < table.Len() && !strings.Contains(got, tt.want); i++ {
			got = fmt.Sprint(table.Err(i))
		}
		held(t, name, got, tt.want)
	}
}
