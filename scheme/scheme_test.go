package scheme_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/scheme"
)

// stored is a tensor of a checkpoint. content is what is asked for, if it is.
type stored struct {
	name    string
	dtype   layout.DType
	shape   []int
	content []byte
}

var defaults = (*layout.Limits)(nil).WithDefaults()

// find finds the weights among tensors, with config.json.
func find(t testing.TB, config string, tensors ...stored) *scheme.Table {
	t.Helper()
	return findWithout(t, "", config, tensors...)
}

// findWithout does what find does, and leaves out the tensor or layer that is called ignored.
func findWithout(t testing.TB, ignored, config string, tensors ...stored) *scheme.Table {
	t.Helper()
	var list []layout.Tensor
	names := layout.NewNames(len(tensors))
	for i, s := range tensors {
		raw, err := s.dtype.Size(s.shape)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, layout.Tensor{Name: []byte(s.name), DType: s.dtype, Shape: s.shape, Raw: raw, Stored: raw})
		names.Enter(layout.HashName(s.name), i, func(int) bool { return false })
	}
	md, err := jsontext.Parse([]byte(config), layout.Unknown, 0, "config.json", defaults)
	if err != nil {
		t.Fatal(err)
	}
	table, err := scheme.Find(t.Context(), list, names, defaults, checkpoint{scheme.ReadConfig(md), tensors, ignored})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// weights lists the weights of a table.
func weights(table *scheme.Table) (list []scheme.Weight) {
	for i := range table.Len() {
		list = append(list, table.Weight(i))
	}
	return list
}

// checkpoint is a source.
type checkpoint struct {
	config  *scheme.Config
	tensors []stored
	ignored string
}

func (c checkpoint) Config(context.Context) (*scheme.Config, error) { return c.config, nil }

func (c checkpoint) Decodable(*scheme.Form) error { return nil }

func (c checkpoint) Ignored(name []byte) bool { return string(name) == c.ignored }

func (c checkpoint) Contents(_ context.Context, tensors []uint32) (list [][]byte, err error) {
	for _, i := range tensors {
		raw, _ := c.tensors[i].dtype.Size(c.tensors[i].shape)
		b := make([]byte, raw)
		copy(b, c.tensors[i].content)
		list = append(list, b)
	}
	return list, nil
}

func int64s(values ...int64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func state(kind, more string) []byte {
	return fmt.Appendf(nil, `{"quant_type":%q,"blocksize":64,"dtype":"float16","shape":[10,13]%s}`, kind, more)
}

func fp8(scale string, d layout.DType, shape ...int) []stored {
	return []stored{{"a.weight", layout.F8_E4M3, []int{256, 200}, nil}, {"a." + scale, d, shape, nil}}
}

func awq(qweight, qzeros, scales []int) []stored {
	return []stored{{"a.qweight", layout.I32, qweight, nil}, {"a.qzeros", layout.I32, qzeros, nil}, {"a.scales", layout.F16, scales, nil}}
}

func packed(shape []byte, scale ...int) []stored {
	return []stored{{"a.weight_packed", layout.I32, []int{8, 16}, nil}, {"a.weight_shape", layout.I64, []int{len(shape) / 8}, shape}, {"a.weight_scale", layout.BF16, scale, nil}}
}

// ternary is a weight of BitNet.
func ternary(scale ...int) []stored {
	return []stored{{"a.weight", layout.U8, []int{8, 24}, nil}, {"a.weight_scale", layout.BF16, scale, nil}}
}

// unpacked is a weight of BitNet whose codes are not packed.
func unpacked(d layout.DType, scale ...int) []stored {
	return []stored{{"a.weight_scale", layout.BF16, scale, nil}, {"a.weight", d, []int{32, 24}, nil}}
}

// experts are two matrices of 256 × 128 in FP8.
func experts(scale ...int) []stored {
	return []stored{{"x.gate_up_proj", layout.F8_E4M3, []int{2, 256, 128}, nil}, {"x.gate_up_proj_scale", layout.F32, scale, nil}}
}

func withoutShape(groups int) []stored {
	return slices.Delete(packed(nil, 8, groups), 1, 2)
}

// five is a weight of 7 × 33 codes of 5 bits: six words a row, dense or not.
func five() []stored {
	return []stored{{"a.weight_packed", layout.I32, []int{7, 6}, nil}, {"a.weight_shape", layout.I64, []int{2}, int64s(7, 33)}, {"a.weight_scale", layout.BF16, []int{7, 1}, nil}}
}

// ollama is a weight of 8 × 64 codes of 4 bits, as Ollama names its parts.
func ollama() []stored {
	return []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.weight.scale", layout.BF16, []int{8, 1}, nil}, {"a.weight.bias", layout.BF16, []int{8, 1}, nil}}
}

// comfy is ComfyUI's description of the layer a.
func comfy(text string) stored {
	return stored{"a.comfy_quant", layout.U8, []int{len(text)}, []byte(text)}
}

func bnb(text []byte, absmax ...stored) []stored {
	return append([]stored{{"a.weight", layout.U8, []int{65, 1}, nil}, {"a.weight.quant_state.bitsandbytes__nf4", layout.U8, []int{len(text)}, text}}, absmax...)
}

// TestWeights has parts as published checkpoints name and store them, and what they are.
func TestWeights(t *testing.T) {
	absmax := stored{"a.weight.absmax", layout.F32, []int{3}, nil}
	for name, tt := range map[string]struct {
		config  string
		tensors []stored
		want    string // name, scheme and shape, or the error
	}{
		"FP8 in blocks":                 {`{}`, fp8("weight_scale_inv", layout.BF16, 2, 2), "a.weight fp8 [256 200]"},
		"FP8 by tensor":                 {`{}`, fp8("weight_scale", layout.F32), "a.weight fp8 [256 200]"},
		"FP8 by channel":                {`{}`, fp8("weight_scale", layout.F32, 256, 1), "a.weight fp8 [256 200]"},
		"FP8 in other blocks":           {`{"quantization_config":{"quant_method":"fp8","weight_block_size":[64,100]}}`, fp8("weight_scale_inv", layout.F32, 4, 2), "a.weight fp8 [256 200]"},
		"FP8 of the configuration's":    {`{"text_config":{"quantization_config":{"quant_method":"fp8","weight_block_size":[64,64]}}}`, fp8("weight_scale_inv", layout.F32, 2, 2), "does not fit shape [256 200] in blocks of [[64 64]]"},
		"FP8 in groups of nothing":      {`{"quantization_config":{"quant_method":"fp8","weight_block_size":[0,0]}}`, fp8("weight_scale_inv", layout.F32, 3, 3), "weight_block_size is [0,0], not two sizes"},
		"FP8 with a scale too many":     {`{}`, fp8("weight_scale", layout.F32, 257, 1), "does not fit"},
		"FP8 without a scale":           {`{}`, fp8("b", layout.F32), "without a scale"},
		"FP8 scaled by integers":        {`{}`, fp8("weight_scale", layout.I32, 256, 1), `F8_E4M3 beside "a.weight_scale"`},
		"FP8 of fused experts":          {`{}`, []stored{{"x.gate_up_proj", layout.F8_E4M3, []int{2, 256, 128}, nil}, {"x.gate_up_proj_scale_inv", layout.F32, []int{2, 2, 1}, nil}}, "x.gate_up_proj fp8 [2 256 128]"},
		"FP8 by another method":         {`{"quantization_config":{"quant_method":"magic"}}`, fp8("weight_scale", layout.F32), `quantized by "magic", which is not known`},
		"FP8 by a method not decoded":   {`{"quantization_config":{"quant_method":"aqlm"}}`, fp8("weight_scale", layout.F32), "quantized by aqlm, which is not decoded"},
		"FP8 of DeepSeek-V4":            {`{}`, fp8("scale", layout.F8_E8M0, 2, 2), "a.weight fp8 [256 200]"},
		"experts of DeepSeek-V4":        {`{}`, []stored{{"w1.weight", layout.I8, []int{8, 32}, nil}, {"w1.scale", layout.F8_E8M0, []int{8, 2}, nil}}, "w1.weight mxfp4 [8 64]"},
		"FP8 of DeepSeek-V4, converted": {`{"original_tensors":{"a.scale":{"dtype":"F8_E8M0","shape":[2,2]}}}`, fp8("scale", layout.U8, 2, 2), "a.weight fp8 [256 200]"},
		"FP8 scaled by bytes":           {`{"original_tensors":{"b.scale":{"dtype":"F8_E8M0","shape":[2,2]}}}`, fp8("scale", layout.U8, 2, 2), `F8_E4M3 beside "a.scale"`},
		"AWQ":                           {`{}`, awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), "a.weight awq [16 128]"},
		"AWQ of 3 bits":                 {`{"quantization_config":{"quant_method":"awq","bits":3}}`, awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), "awq of 3 bits"},
		"AWQ of 33 bits":                {`{"quantization_config":{"quant_method":"awq","bits":33}}`, awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), "33 bits"},
		"AWQ of 0 bits":                 {`{"quantization_config":{"quant_method":"awq","w_bit":0}}`, awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), "0 bits"},
		"AWQ in groups of 0":            {`{"quantization_config":{"quant_method":"awq","group_size":0}}`, awq([]int{128, 2}, []int{1, 2}, []int{1, 16}), "a group size of 0"},
		"AWQ in groups that do not fit": {`{"quantization_config":{"quant_method":"awq","group_size":32}}`, awq([]int{128, 2}, []int{2, 2}, []int{2, 16}), "are not the 2 groups"},
		"AWQ without zeros":             {`{}`, []stored{{"a.qweight", layout.I32, []int{128, 2}, nil}, {"a.scales", layout.F16, []int{1, 16}, nil}}, "without their zero_point (.qzeros)"},
		"AWQ without scales":            {`{}`, []stored{{"a.qweight", layout.I32, []int{128, 2}, nil}}, "without their scale"},
		"AWQ with zeros too few":        {`{}`, awq([]int{128, 2}, []int{1, 1}, []int{1, 16}), "do not fit"},
		"GPTQ":                          {`{"quantization_config":{"quant_method":"gptq"}}`, awq([]int{16, 16}, []int{1, 2}, []int{1, 16}), "a.weight gptq [16 128]"},
		"GPTQ in an unknown format":     {`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"bitblas"}}`, awq([]int{16, 16}, []int{1, 2}, []int{1, 16}), `format "bitblas", which is not known`},
		"GPTQ with overrides":           {`{"quantization_config":{"quant_method":"gptq","bits":8,"group_size":32,"dynamic":{"-:a":{},"b":{"bits":2},"+:^a":{"bits":4,"group_size":96}}}}`, awq([]int{16, 16}, []int{2, 2}, []int{2, 16}), "a.weight gptq [16 128]"},
		"GPTQ with other overrides":     {`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"+:b":{"group_size":96}}}}`, awq([]int{16, 16}, []int{2, 2}, []int{2, 16}), "are not the 2 groups"},
		"GPTQ with an override of 0":    {`{"quantization_config":{"quant_method":"gptq","bits":4,"dynamic":{"a":{"group_size":0}}}}`, awq([]int{16, 16}, []int{1, 2}, []int{1, 16}), "a group size of 0"},
		"GPTQ in groups of 96 or 128":   {`{"quantization_config":{"quant_method":"gptq","bits":4}}`, awq([]int{24, 16}, []int{2, 2}, []int{2, 16}), "groups of 96 and of 128"},
		"int4 in groups of 64 or 96":    {`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"group_size":64}},"h":{"weights":{"num_bits":4,"group_size":96}}}}}`, packed(int64s(8, 128), 8, 2), "a.weight pack-quantized [8 128]"},
		"GPTQ's codes of bytes":         {`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"bitblas"}}`, []stored{{"a.qweight", layout.I8, []int{16, 64}, nil}}, "I8 without a scale"},
		"FP8 of FBGEMM's experts":       {`{"quantization_config":{"quant_method":"fbgemm_fp8"}}`, experts(2, 1, 128), "x.gate_up_proj fp8 [2 256 128]"},
		"FP8 of FBGEMM's experts down":  {`{"quantization_config":{"quant_method":"fbgemm_fp8"}}`, experts(2, 128, 1), "x.gate_up_proj fp8 [2 256 128]"},
		"FP8 of FBGEMM's experts, rows": {`{"quantization_config":{"quant_method":"fbgemm_fp8"}}`, experts(2, 256, 1), "does not fit the columns"},
		"GPTQ in bit planes":            {`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"gptq_p"}}`, awq([]int{15, 32}, []int{1, 3}, []int{1, 32}), "a.weight gptq [32 160]"},
		"GPTQ in planes of 16 rows":     {`{"quantization_config":{"quant_method":"gptq","bits":5,"meta":{"quantizer":["gptqmodel:7.7.0"]}}}`, awq([]int{15, 64}, []int{1, 10}, []int{1, 64}), "a.weight gptq [64 96]"},
		"GPTQ in planes that are short": {`{"quantization_config":{"quant_method":"gptq","bits":3,"checkpoint_format":"gptq_p"}}`, append(awq([]int{3, 16}, []int{1, 2}, []int{1, 16}), stored{"a.g_idx", layout.I32, []int{32}, nil}), "no multiples of 32"},
		"GPTQ in too many groups":       {`{"quantization_config":{"quant_method":"gptq"}}`, awq([]int{16, 16}, []int{1000, 2}, []int{1000, 16}), "do not divide"},
		"BitNet":                        {`{"quantization_config":{"quant_method":"bitnet"}}`, ternary(1), "a.weight bitnet [32 24]"},
		"BitNet that multiplies":        {`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"offline"}}`, ternary(), "a.weight bitnet [32 24]"},
		"BitNet, quantized when used":   {`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"online"}}`, ternary(1), "weights are quantized online"},
		"BitNet of another class":       {`{"quantization_config":{"quant_method":"bitnet","linear_class":"bitmagic"}}`, ternary(1), `layers of class "bitmagic" are not known`},
		"BitNet without configuration":  {`{}`, ternary(1), "packed in bytes with one scale tensor is not decoded"},
		"BitNet with scales of rows":    {`{"quantization_config":{"quant_method":"bitnet"}}`, ternary(32), "which bitnet has one"},
		"BitNet in bytes of another":    {`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear"}}`, unpacked(layout.I8, 1), "int-quantized in a checkpoint of bitnet"},
		"BitNet that is not packed":     {`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear"}}`, unpacked(layout.BF16, 1), "a.weight bitnet [32 24]"},
		"BitNet, not packed, divided":   {`{"quantization_config":{"quant_method":"bitnet","linear_class":"bitlinear"}}`, unpacked(layout.F16, 1), "they are packed (linear_class)"},
		"BitNet, not packed, online":    {`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"online"}}`, unpacked(layout.F32, 1), "weights are quantized online"},
		"BitNet, not packed, of rows":   {`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear"}}`, unpacked(layout.F32, 32, 1), "which bitnet has one"},
		"floats of an unknown method":   {`{"quantization_config":{"quant_method":"magic"}}`, unpacked(layout.BF16, 1), `quantized by "magic"`},
		"BitNet without a scale":        {`{"quantization_config":{"quant_method":"bitnet"}}`, ternary(1)[:1], "without a scale"},
		"BitNet of three dimensions":    {`{"quantization_config":{"quant_method":"bitnet"}}`, []stored{{"a.weight", layout.U8, []int{2, 8, 24}, nil}, {"a.weight_scale", layout.BF16, nil, nil}}, "are no matrix"},
		"BitNet of huge rows":           {`{"quantization_config":{"quant_method":"bitnet"}}`, []stored{{"a.weight", layout.U8, []int{math.MaxInt >> 23, 1 << 20}, nil}, {"a.weight_scale", layout.BF16, nil, nil}}, "too many elements"},
		"int4":                          {`{}`, packed(int64s(8, 128), 8, 1), "a.weight pack-quantized [8 128]"},
		"int4 without a shape":          {`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"strategy":"channel"}}}}}`, withoutShape(1), "without their shape"},
		"int4 in groups, shapeless":     {`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"group_size":32}}}}}`, withoutShape(4), "a.weight pack-quantized [8 128]"},
		"int4 in one group of several":  {`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"group_size":32}}}}}`, packed(int64s(8, 128), 8, 1), "are not the 1 groups"},
		"int4 by channel, in groups":    {`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"strategy":"channel"}}}}}`, packed(int64s(8, 128), 8, 4), "are not the 4 groups"},
		"int4 that lacks zero points":   {`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"symmetric":false}}}}}`, packed(int64s(8, 128), 8, 1), "symmetric: false"},
		"int8 beside a description":     {`{}`, []stored{{"a.weight", layout.I8, []int{8, 4}, nil}, comfy(`{"format":"int8_tensorwise"}`)}, `I8 beside "a.comfy_quant"`},
		"int8 scaled by integers":       {`{}`, []stored{{"a.weight", layout.I8, []int{8, 4}, nil}, {"a.weight_scale", layout.I32, []int{8, 1}, nil}}, `I8 beside "a.weight_scale"`},
		"FP8 blocks with one scale":     {`{}`, fp8("weight_scale_inv", layout.F32, 1, 1), "does not fit"},
		"gpt-oss without scales":        {`{"quantization_config":{"quant_method":"mxfp4"}}`, []stored{{"a_blocks", layout.U8, []int{2, 8, 3, 16}, nil}}, "without a scale"},
		"int4 of odd columns":           {`{}`, packed(int64s(8, 125), 8, 1), "a.weight pack-quantized [8 125]"},
		"int4 of a lying shape":         {`{}`, packed(int64s(8, 1280), 8, 1), "do not hold shape [8 1280]"},
		"int4 of a huge shape":          {`{}`, packed(int64s(8, 1<<62), 8, 1), "does not fit codes"},
		"int4 of a negative shape":      {`{}`, packed(int64s(8, -128), 8, 1), "a negative size"},
		"int4 of other rows":            {`{}`, packed(int64s(9, 128), 8, 1), "does not fit codes"},
		"int4 of one dimension":         {`{}`, packed(int64s(1024), 8, 1), "does not fit codes"},
		"MLX":                           {`{"quantization":{"group_size":64,"bits":4}}`, []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.scales", layout.BF16, []int{8, 1}, nil}, {"a.biases", layout.BF16, []int{8, 1}, nil}}, "a.weight mlx-affine [8 64]"},
		"MLX without a configuration":   {`{}`, []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.scales", layout.BF16, []int{8, 1}, nil}, {"a.biases", layout.BF16, []int{8, 1}, nil}}, "stand in no configuration"},
		"MLX of another layer":          {`{"quantization":{"group_size":64,"bits":4,"a":{"group_size":32,"bits":8}}}`, []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.scales", layout.BF16, []int{8, 1}, nil}, {"a.biases", layout.BF16, []int{8, 1}, nil}}, "a.weight mlx-affine [8 32]"},
		"MLX of 7 bits":                 {`{"quantization":{"group_size":64,"bits":7}}`, []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.scales", layout.BF16, []int{8, 1}, nil}, {"a.biases", layout.BF16, []int{8, 1}, nil}}, "codes of 7 bits"},
		"Ollama's int4":                 {`{"quant_type":"int4","group_size":"64"}`, ollama(), "a.weight mlx-affine [8 64]"},
		"Ollama's int4 of a tensor":     {`{"quant_type":"","a.weight.quant_type":"int4","a.weight.group_size":"64"}`, ollama(), "a.weight mlx-affine [8 64]"},
		"Ollama's int4 of another":      {`{"quant_type":"","b.weight.quant_type":"int4","b.weight.group_size":"64"}`, ollama(), "stand in no configuration"},
		"Ollama's int4 in groups of 0":  {`{"quant_type":"int4","group_size":"0"}`, ollama(), "stand in no configuration"},
		"Ollama's int4 behind another":  {`{"b.weight.quant_type":"int8","b.weight.group_size":"128","quant_type":"int4","group_size":"64"}`, ollama(), "a.weight mlx-affine [8 64]"},
		"Ollama's int5":                 {`{"quant_type":"int5","group_size":"64"}`, ollama(), "stand in no configuration"},
		"Ollama's nvfp4 of ModelOpt":    {`{"quant_type":"nvfp4","group_size":"16"}`, []stored{{"a.weight", layout.U32, []int{8, 8}, nil}, {"a.weight.scale", layout.U8, []int{8, 4}, nil}, {"a.weight.global_scale", layout.F32, nil, nil}}, "with a global scale"},
		"bitsandbytes":                  {`{}`, bnb(state("nf4", ""), absmax), "a.weight bnb-nf4 [10 13]"},
		"bitsandbytes, other":           {`{}`, bnb(state("fp4", ""), absmax), `describes "fp4"`},
		"bitsandbytes, no JSON":         {`{}`, bnb([]byte(`{"quant_type":`), absmax), "quant_state"},
		"bitsandbytes, deep":            {`{}`, bnb([]byte(strings.Repeat(`{"a":`, 5000)), absmax), "nested deeper"},
		"bitsandbytes, blocks of 0":     {`{}`, bnb([]byte(`{"quant_type":"nf4","blocksize":0,"shape":[10,13]}`), absmax), "blocks of 0"},
		"bitsandbytes, lying":           {`{}`, bnb([]byte(`{"quant_type":"nf4","blocksize":64,"shape":[10,14]}`), absmax), "do not hold the shape [10 14]"},
		"bitsandbytes, overflowing":     {`{}`, bnb([]byte(`{"quant_type":"nf4","blocksize":64,"shape":[281474976710655,281474976710655,281474976710655]}`), absmax), "do not hold the shape"},
		"bitsandbytes, nested alone":    {`{}`, bnb(state("nf4", `,"nested_blocksize":256,"nested_offset":0.5`), stored{"a.weight.absmax", layout.U8, []int{3}, nil}), "nested scales do not fit"},
		"bitsandbytes, large":           {`{}`, bnb(make([]byte, 1<<17), absmax), "more than 65536"},
		"bitsandbytes int8":             {`{}`, []stored{{"a.weight", layout.I8, []int{8, 4}, nil}, {"a.SCB", layout.F32, []int{8}, nil}}, "a.weight bnb-int8 [8 4]"},
		"gpt-oss":                       {`{}`, []stored{{"a_blocks", layout.U8, []int{2, 8, 3, 16}, nil}, {"a_scales", layout.U8, []int{2, 8, 3}, nil}}, "a mxfp4 [2 8 96]"},
		"ModelOpt":                      {`{}`, []stored{{"a.weight", layout.U8, []int{8, 16}, nil}, {"a.weight_scale", layout.F8_E4M3, []int{8, 2}, nil}, {"a.weight_scale_2", layout.F32, nil, nil}, {"a.input_scale", layout.F32, nil, nil}}, "a.weight nvfp4 [8 32]"},
		"GGUF":                          {`{}`, []stored{{"blk.0.ffn_up.weight", layout.NVFP4, []int{8, 64}, nil}, {"blk.0.ffn_up.scale", layout.F32, []int{1}, nil}}, "blk.0.ffn_up.weight nvfp4 [8 64]"},
		"exllamav3":                     {`{}`, []stored{{"q.trellis", layout.I16, []int{8, 8, 64}, nil}, {"q.suh", layout.F16, []int{128}, nil}}, "exl3 is not decoded"},
		"sparse":                        {`{}`, []stored{{"q.compressed", layout.BF16, []int{20}, nil}, {"q.bitmask", layout.U8, []int{64, 8}, nil}}, "sparse-bitmask is not decoded"},
		"AWQ gemv_fast":                 {`{}`, []stored{{"q.qweight", layout.I16, []int{8, 64}, nil}, {"q.scales", layout.F16, []int{1, 128}, nil}}, "gemv_fast is not decoded"},
		"a huge dimension":              {`{}`, []stored{{"a.weight", layout.F8_E4M3, []int{0, math.MaxInt}, nil}, {"a.weight_scale", layout.F32, nil, nil}}, "a dimension of"},
		"ComfyUI's FP8 in blocks":       {`{}`, append(fp8("weight_scale", layout.F32, 16, 13), comfy(`{"format":"float8_e4m3fn_blockwise","group_size":16}`)), "a.weight fp8 [256 200]"},
		"ComfyUI's FP8, turned":         {`{}`, append(fp8("weight_scale", layout.F32), comfy(`{"format":"float8_e4m3fn","convrot":true}`)), "turned by a Hadamard matrix"},
		"ComfyUI's FP8, no JSON":        {`{}`, append(fp8("weight_scale", layout.F32), comfy(`{"format":`)), "comfy_quant"},
		"ComfyUI's FP8, no format":      {`{}`, append(fp8("weight_scale", layout.F32), comfy(`{}`)), `ComfyUI's format ""`},
		"ComfyUI's MXFP8":               {`{}`, append(fp8("weight_scale", layout.U8, 256, 7), comfy(`{"format":"mxfp8"}`)), `ComfyUI's format "mxfp8"`},
		"ComfyUI's NVFP4":               {`{}`, []stored{{"a.weight", layout.U8, []int{128, 32}, nil}, {"a.weight_scale", layout.F8_E4M3, []int{128, 4}, nil}, {"a.weight_scale_2", layout.F32, nil, nil}, comfy(`{"format":"nvfp4"}`)}, `ComfyUI's format "nvfp4"`},
		"ComfyUI's NVFP4 by its header": {`{"_quantization_metadata":"{\"layers\":{\"a\":{\"format\":\"nvfp4\"}}}"}`, []stored{{"a.weight", layout.U8, []int{128, 32}, nil}, {"a.weight_scale", layout.F8_E4M3, []int{128, 4}, nil}, {"a.weight_scale_2", layout.F32, nil, nil}}, `ComfyUI's format "nvfp4"`},
		"ComfyUI's header, no JSON":     {`{"_quantization_metadata":"{"}`, fp8("weight_scale", layout.F32), "_quantization_metadata"},
		"ComfyUI's older int8":          {`{}`, []stored{{"a.weight", layout.I8, []int{8, 4}, nil}, {"a.scale_weight", layout.F32, []int{8, 1}, nil}}, "a.weight int-quantized [8 4]"},
		"int5 of any packing":           {`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":5}}}}}`, five(), "may have unused bits"},
		"int5, dense":                   {`{"quantization_config":{"quant_method":"compressed-tensors","version":"0.18.0","config_groups":{"g":{"weights":{"num_bits":5}}}}}`, five(), "a.weight pack-quantized [7 33]"},
		"integers of a checkpoint":      {`{"quantization_config":{"quant_method":"awq"}}`, []stored{{"a.weight", layout.I8, []int{8, 8}, nil}}, "without a scale"},
	} {
		t.Run(name, func(t *testing.T) {
			table := find(t, tt.config, tt.tensors...)
			if table.Len() != 1 {
				t.Fatalf("%d weights", table.Len())
			}
			w := table.Weight(0)
			if w.Err != nil {
				if !strings.Contains(w.Err.Error(), tt.want) || !errors.Is(w.Err, layout.ErrInvalid) && !errors.Is(w.Err, layout.ErrUnsupported) && !errors.Is(w.Err, layout.ErrLimit) {
					t.Errorf("%v", w.Err)
				}
				for i := range tt.tensors {
					if _, isPart := table.WeightOf(uint32(i)); len(w.Parts) != 1 || isPart != (uint32(i) == w.Parts[0].Tensor) {
						t.Errorf("%v, and %s: %v", w.Parts, tt.tensors[i].name, isPart)
					}
				}
				return
			}
			if got := fmt.Sprint(string(w.Name), " ", w.Scheme, " ", w.Shape); got != tt.want {
				t.Errorf("%s", got)
			}
			for i, tensor := range tt.tensors {
				if _, isPart := table.WeightOf(uint32(i)); !isPart && tensor.name != "a.b" {
					t.Errorf("%s is no part", tensor.name)
				}
			}
		})
	}
}

// TestPlainModels: tensors that hold weights are left alone, and the configuration is not read.
func TestPlainModels(t *testing.T) {
	table := find(t, `{"quantization_config":{"quant_method":"magic"}}`,
		stored{"a.weight", layout.BF16, []int{8, 8}, nil}, stored{"a.scale", layout.F32, []int{8}, nil}, stored{"ids", layout.I32, []int{8}, nil},
		stored{"mask", layout.U8, []int{8, 8}, nil}, stored{"blk.0.weight", layout.NVFP4, []int{8, 64}, nil}, stored{"f8_bias", layout.F8_E4M3, []int{8}, nil})
	rounded := find(t, `{"quantization_config":{"quant_method":"compressed-tensors","quantization_status":"frozen"}}`, stored{"a.weight", layout.BF16, []int{8, 8}, nil}, stored{"a.weight_scale", layout.BF16, []int{8, 1}, nil})
	if table.Len() != 0 || rounded.Len() != 0 {
		t.Errorf("%+v, %+v", weights(table), weights(rounded))
	}
}

// TestOneOfMany: a weight that does not fit spoils no other.
func TestOneOfMany(t *testing.T) {
	var all []stored
	for i := range 20 {
		scale := []int{2, 2}
		if i == 7 {
			scale = []int{3, 2}
		}
		name := fmt.Sprintf("l.%d.weight", i)
		all = append(all, stored{name, layout.F8_E4M3, []int{256, 200}, nil}, stored{name + "_scale_inv", layout.F32, scale, nil})
	}
	for i, w := range weights(find(t, `{}`, all...)) {
		if (w.Err != nil) != (i == 7) {
			t.Errorf("%s: %v", w.Name, w.Err)
		}
	}
}

// TestSharedPart: a tensor is a part of one weight.
func TestSharedPart(t *testing.T) {
	table := find(t, `{}`, stored{"a_packed", layout.I32, []int{8, 16}, nil}, stored{"a_scale", layout.F32, []int{8, 1}, nil}, stored{"a_shape", layout.I64, []int{2}, int64s(8, 128)},
		stored{"a", layout.F8_E4M3, []int{8, 8}, nil})
	if list := weights(table); len(list) != 2 || list[1].Err == nil || !strings.Contains(list[1].Err.Error(), `"a_scale" is a part of "a" too`) {
		t.Errorf("%+v", list)
	}
}

// TestRefusedCodes: the codes of a refused weight remain its part, though another refused weight had them as its scale.
func TestRefusedCodes(t *testing.T) {
	content := state("nf4", "")
	table := find(t, `{}`, stored{"x", layout.U8, []int{65, 1}, nil}, stored{"x.absmax", layout.F32, []int{3}, nil},
		stored{"x.absmax.quant_state.bitsandbytes__nf4", layout.U8, []int{len(content)}, content}, stored{"x.absmax.absmax", layout.F32, []int{3}, nil})
	for i, w := range weights(table) {
		if owner, ok := table.WeightOf(table.Codes(i)); w.Err == nil || !ok || owner != i {
			t.Errorf("%s: %v, its codes are a part of weight %d (%v), not of %d", w.Name, w.Err, owner, ok, i)
		}
	}
	if _, isPart := table.WeightOf(3); table.Len() != 2 || isPart {
		t.Errorf("%d weights; the second scale is a part: %v", table.Len(), isPart)
	}
}

// TestOrder finds the same weights with the same parts in whatever order the tensors lie, some of them
// without a part that others have.
func TestOrder(t *testing.T) {
	var tensors []stored
	for i := range 40 {
		a, b, c := fmt.Sprintf("a%d.", i), fmt.Sprintf("b%d.", i), fmt.Sprintf("c%d.", i)
		tensors = append(tensors, stored{a + "weight", layout.F8_E4M3, []int{128, 128}, nil}, stored{a + "weight_scale_inv", layout.F32, []int{1, 1}, nil},
			stored{b + "weight", layout.I8, []int{8, 4}, nil}, stored{b + "SCB", layout.F32, []int{8}, nil},
			stored{c + "weight_packed", layout.I32, []int{8, 16}, nil}, stored{c + "weight_shape", layout.I64, []int{2}, int64s(8, 128)}, stored{c + "weight_scale", layout.BF16, []int{8, 1 + i%2}, nil})
		if i%3 == 0 {
			tensors = append(tensors, stored{b + "weight_format", layout.U8, nil, nil}, stored{a + "input_scale", layout.F32, nil, nil})
		}
	}
	describe := func() string {
		var lines []string
		table := find(t, `{}`, tensors...)
		hidden := 0
		for _, w := range weights(table) {
			var parts []string
			for _, p := range w.Parts {
				parts = append(parts, fmt.Sprint(p.Role, " ", tensors[p.Tensor].name))
			}
			hidden += len(parts) - 1
			lines = append(lines, fmt.Sprintf("%s %s %v %d %v %v", w.Name, w.Scheme, w.Shape, w.GroupCols, parts, w.Err))
		}
		if table.Hidden != hidden {
			t.Errorf("%d parts other than codes, not %d", hidden, table.Hidden)
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	want := describe()
	if n := strings.Count(want, "<nil>"); n != 120 {
		t.Fatalf("%d weights:\n%s", n, want)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for _, by := range []func(a, b stored) int{
		func(a, b stored) int { return strings.Compare(a.name, b.name) },
		func(a, b stored) int { return strings.Compare(b.name, a.name) },
		func(a, b stored) int { return cmp.Or(cmp.Compare(a.dtype, b.dtype), strings.Compare(a.name, b.name)) },
		nil, nil, nil,
	} {
		if by != nil {
			slices.SortFunc(tensors, by)
		} else {
			rng.Shuffle(len(tensors), func(i, j int) { tensors[i], tensors[j] = tensors[j], tensors[i] })
		}
		if got := describe(); got != want {
			t.Fatalf("%s\n\nwant\n\n%s", got, want)
		}
	}
}

// nibbles has parts of ones, and of words whose nibbles are all alike.
type nibbles byte

func (n nibbles) Floats(_ context.Context, _ scheme.Role, _ layout.DType, dst []float32, _ uint64) error {
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

func (n nibbles) Constants(context.Context, scheme.Role) ([]float32, error) { return []float32{1}, nil }

func (n nibbles) Bytes(context.Context, scheme.Role) ([]byte, error) {
	return bytes.Repeat([]byte{byte(n) | byte(n)<<4}, 1024), nil
}

func (n nibbles) Wrap(_ scheme.Role, err error) error { return err }

// offset returns the offset of a weight whose zero points are all stored as z, or an error.
func offset(w scheme.Weight, z nibbles) string {
	s := scheme.Scales{Scales: make([]float32, w.Rows), Offsets: make([]float32, w.Rows)}
	if err := w.ReadScales(context.Background(), z, &s, 0); err != nil {
		return err.Error()
	}
	return fmt.Sprint(s.Offsets[len(s.Offsets)-1])
}

// TestZeroPointsLessOne: GPTQ's zero points are stored less one, but in the formats that say otherwise.
func TestZeroPointsLessOne(t *testing.T) {
	for said, want := range map[string]string{
		`"quant_method":"gptq"`:                                                "gptq 4",
		`"quant_method":"gptq","checkpoint_format":"gptq"`:                     "gptq 4",
		`"quant_method":"gptq","checkpoint_format":"gptq_v2"`:                  "gptq 3",
		`"quant_method":"gptq","format":"gptq_v2"`:                             "gptq 3",
		`"quant_method":"gptq","checkpoint_format":"gptq_p"`:                   "gptq 3", // 4 bits have one plane
		`"quant_method":"auto-round","packing_format":"auto_round:auto_gptq"`:  "gptq 4",
		`"quant_method":"auto-round","packing_format":"auto_round:gptq"`:       "gptq 4",
		`"quant_method":"auto-round","packing_format":"auto_round"`:            "gptq 3",
		`"quant_method":"auto-round","packing_format":"auto_round:gptqmodel"`:  "gptq 3",
		`"quant_method":"intel/auto-round","packing_format":"auto_round:gptq"`: "gptq 4",
	} {
		w := find(t, `{"quantization_config":{"bits":4,"sym":false,`+said+`}}`, awq([]int{16, 32}, []int{1, 4}, []int{1, 32})...).Weight(0)
		if w.Err != nil {
			t.Errorf("%s: %v", said, w.Err)
		} else if got := w.Scheme + " " + offset(w, 3); got != want {
			t.Errorf("%s: %s", said, got)
		}
	}
	w := find(t, `{"quantization_config":{"bits":4,"quant_method":"auto-round","packing_format":"auto_round:auto_awq"}}`, awq([]int{128, 2}, []int{1, 2}, []int{1, 16})...).Weight(0)
	if w.Err != nil || w.Scheme != scheme.AWQ || offset(w, 3) != "3" {
		t.Errorf("%v, %+v", w.Err, w.Form)
	}
}

// TestNames has every value of a Form print as a name of its own.
func TestNames(t *testing.T) {
	form := scheme.Form{Scheme: scheme.GPTQ, Grouped: layout.Grouped{Code: 3, Pack: layout.PackPlanes}}
	for _, want := range []string{"Code:uint3", "Pack:planes"} {
		if got := fmt.Sprintf("%+v", form); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q", got, want)
		}
	}
	named(t, layout.CodeBlocks, layout.Code(8))
	named(t, layout.CodeInt8, layout.CodeFP4)
	named(t, layout.PackRows, layout.PackPlanes)
	named(t, scheme.Codes, scheme.Setting)
}

// named checks that the values up to last have names of their own, and the next one its number.
func named[T interface {
	~uint8
	String() string
}](t *testing.T, first, last T) {
	t.Helper()
	seen := map[string]bool{}
	for v := first; v <= last; v++ {
		if s := v.String(); s == "" || seen[s] || strings.Contains(s, "(") {
			t.Errorf("%T %d prints as %q", v, uint8(v), s)
		} else {
			seen[s] = true
		}
	}
	if s := (last + 1).String(); !strings.HasSuffix(s, fmt.Sprintf("(%d)", uint8(last+1))) {
		t.Errorf("%T %d prints as %q", last, uint8(last+1), s)
	}
}
