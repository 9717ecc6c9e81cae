//go:build unix

package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
)

// parts is a checkpoint taken apart: what a change changes one thing of.
type parts struct {
	tensors  []modeltest.Tensor
	metadata map[string]string // of a SafeTensors file
	// objects are all that is JSON, by the name of its file, of its key in metadata, or of its tensor.
	objects map[string]any
	gguf    bool
}

// An object is one of JSON.
type object = map[string]any

// readObject reads an object of JSON, or returns nil.
func readObject(b []byte) any {
	var o object
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&o) != nil {
		return nil
	}
	return o
}

// files puts a checkpoint together.
func (p *parts) files() map[string][]byte {
	files, metadata, tensors := map[string][]byte{}, maps.Clone(p.metadata), slices.Clone(p.tensors)
	for name, o := range p.objects {
		b := must(json.Marshal(o))
		i := slices.IndexFunc(tensors, func(t modeltest.Tensor) bool { return t.Name == name })
		_, isKey := metadata[name]
		switch {
		case strings.HasSuffix(name, ".json"):
			files[name] = b
		case isKey:
			metadata[name] = string(b)
		case i >= 0 && tensors[i].DType == layout.U8 && len(tensors[i].Shape) == 1:
			tensors[i].Data, tensors[i].Shape = b, []int{len(b)}
		}
	}
	if !p.gguf {
		files["model.safetensors"] = modeltest.SafeTensorsAt(0, string(must(json.Marshal(metadata))), tensors...)
		return files
	}
	var out bytes.Buffer
	list := make([]layout.Tensor, len(tensors))
	for i, t := range tensors {
		list[i] = layout.Tensor{Name: []byte(t.Name), DType: t.DType, Shape: t.Shape}
	}
	w, err := gguf.NewWriter(&out, slices.Values(list), layout.Metadata{{Key: "general.architecture", Value: "llama"}}, nil)
	for i := 0; err == nil && i < len(tensors); i++ {
		err = w.WriteTensor(tensors[i].Data)
	}
	if err == nil && w.Close() == nil { // else GGUF has no such tensor
		files["model.gguf"] = out.Bytes()
	}
	return files
}

// A changing is one thing that is different.
type changing struct {
	what string
	do   func(*parts)
	same bool // values keep their order, and the weight may have another shape
}

// changes lists all changes of a checkpoint whose codes have these names.
func (p *parts) changes(codes []string) []changing {
	return slices.Concat(p.changesOfTensors(codes), p.changesOfObjects())
}

// layerEnds are what follows the name of a layer in the names of its tensors: all that some fixture has, or that is known
// and harmless, or that nobody knows.
var layerEnds = []string{
	".weight", ".qweight", ".weight_packed", ".W_q", "_blocks", "_packed", "",
	".scales", ".weight_scale", ".weight_scale_inv", ".scale", ".scale_weight", ".qscale_weight", ".weights_scaling_factor", "_scales", "_scale", "_scale_inv", ".weight.absmax", ".SCB",
	".qzeros", ".weight_zero_point", ".zero", ".biases", ".weight_scale_2", ".weight_global_scale", ".global_scale",
	".g_idx", ".weight_g_idx", ".weight_shape", ".shape", ".nbits", ".axis", ".group_size", ".packing",
	".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map", ".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4", ".weight_format", ".comfy_quant",
	".bias", ".input_scale", ".input_zero_point", ".input_global_scale", ".k_scale", ".output_scale", ".scale_input", ".activation_scale", "_bias", "._extra_state",
	".lora_a", ".lora_A.default.weight", ".svdquant_lora_a", ".pre_quant_scale", ".weight_zp", ".weight_scale_3", ".weight_outliers", ".codebook", "_residual", ".rotation",
}

// stem returns the name of the layer that a tensor's name begins with.
func stem(name string) string {
	best := name
	for _, end := range layerEnds {
		if s, ok := strings.CutSuffix(name, end); ok && len(s) < len(best) {
			best = s
		}
	}
	return best
}

// widths are types of the same width.
var widths = [][]layout.DType{
	{layout.I8, layout.U8, layout.BOOL, layout.F8_E4M3, layout.F8_E5M2, layout.F8_E8M0, layout.F8_E4M3FNUZ, layout.F8_E5M2FNUZ},
	{layout.F16, layout.BF16, layout.I16, layout.U16},
	{layout.F32, layout.I32, layout.U32},
	{layout.F64, layout.I64, layout.U64},
}

// changesOfTensors lists what may happen to one tensor of a weight.
func (p *parts) changesOfTensors(codes []string) (list []changing) {
	for i, t := range p.tensors {
		to := func(what string, same bool, do func(t *modeltest.Tensor)) {
			list = append(list, changing{t.Name + " " + what, func(p *parts) {
				p.tensors = slices.Clone(p.tensors)
				do(&p.tensors[i])
			}, same})
		}
		add := func(what string, t modeltest.Tensor) {
			list = append(list, changing{what, func(p *parts) { p.tensors = append(slices.Clip(p.tensors), t) }, false})
		}
		if !slices.ContainsFunc(codes, func(name string) bool { return stem(name) == stem(t.Name) }) { // which no weight needs
			continue
		}
		list = append(list, changing{t.Name + " is dropped", func(p *parts) {
			p.tensors = slices.Delete(slices.Clone(p.tensors), i, i+1)
			p.objects = maps.Clone(p.objects)
			delete(p.objects, t.Name)
		}, false})
		for _, end := range layerEnds {
			name := stem(t.Name) + end
			if slices.ContainsFunc(p.tensors, func(t modeltest.Tensor) bool { return t.Name == name }) {
				continue
			}
			list = append(list, changing{t.Name + " is called " + name, func(p *parts) {
				p.tensors, p.objects = slices.Clone(p.tensors), maps.Clone(p.objects)
				p.tensors[i].Name = name
				if o, ok := p.objects[t.Name]; ok {
					delete(p.objects, t.Name)
					p.objects[name] = o
				}
			}, false})
			twin := t
			twin.Name = name
			add(name+" is a copy of "+t.Name, twin)
			add(name+" is one float beside "+t.Name, modeltest.Tensor{Name: name, DType: layout.F32, Shape: []int{1}, Data: modeltest.Float32s(0.5)})
		}
		for _, width := range widths {
			for _, d := range width {
				if slices.Contains(width, t.DType) && d != t.DType {
					to("is "+d.String(), false, func(t *modeltest.Tensor) { t.DType = d })
				}
			}
		}
		for _, shape := range shapes(t.Shape) {
			to(fmt.Sprintf("has the shape %v", shape), true, func(t *modeltest.Tensor) { t.Shape = shape })
		}
		if slices.Contains([]string{"_shape", ".shape", ".nbits", ".axis", ".group_size"}, t.Name[max(strings.LastIndexAny(t.Name, "._"), 0):]) {
			size := t.DType.BlockBytes()
			for at := 0; at < len(t.Data); at += size {
				for _, v := range []byte{0, 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, t.Data[at] - 1, t.Data[at] + 1} {
					if v != t.Data[at] {
						to(fmt.Sprintf("has %d at %d", v, at/size), false, func(t *modeltest.Tensor) {
							t.Data = bytes.Clone(t.Data)
							t.Data[at] = v
						})
					}
				}
			}
		}
	}
	return list
}

// shapes lists other shapes of as many elements.
func shapes(of []int) (list [][]int) {
	n := 1
	for _, d := range of {
		n *= d
	}
	list = [][]int{{n}, {n, 1}, {1, n}, append([]int{1}, of...), append(slices.Clone(of), 1)}
	if n == 1 {
		list = append(list, []int{})
	}
	for i := range len(of) - 1 {
		turned := slices.Clone(of)
		turned[i], turned[i+1] = turned[i+1], turned[i]
		list = append(list, turned)
		for _, by := range []int{2, 4, 8} {
			if wide := slices.Clone(of); of[i]%by == 0 {
				wide[i], wide[i+1] = of[i]/by, of[i+1]*by
				list = append(list, wide)
			}
			if high := slices.Clone(of); of[i+1]%by == 0 {
				high[i], high[i+1] = of[i]*by, of[i+1]/by
				list = append(list, high)
			}
		}
	}
	return slices.DeleteFunc(list, func(s []int) bool { return slices.Equal(s, of) })
}

// values are what the keys of configurations may have, and what no key has.
var values = map[string][]any{
	"bits": bitsOf, "w_bit": bitsOf, "num_bits": bitsOf, "weight_bits": bitsOf, "nbits": bitsOf,
	"group_size": groupsOf, "q_group_size": groupsOf, "blocksize": groupsOf, "nested_blocksize": groupsOf,
	"sym": {}, "symmetric": {}, "desc_act": {}, "zero_point": {}, "dynamic": {}, "static_groups": {}, "lm_head": {},
	"checkpoint_format": {"gptq", "gptq_v2", "gptq_p", "marlin", "bitblas", "GPTQ_V2"},
	"format":            {"gptq", "gptq_v2", "gptq_p", "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision", "marlin-24", "dense", "float8_e4m3fn", "float8_e5m2", "int8_tensorwise", "int8_blockwise", "nvfp4", "mxfp8"},
	"packing_format":    {"auto", "auto_round", "auto_round:gptq", "auto_round:auto_gptq", "auto_round:gptqmodel", "auto_round:auto_awq", "auto_round:awq", "auto_round:exllamav2", "auto_round:llm_compressor", "auto_round:fp8", "auto_gptq"},
	"data_type":         {"int", "int_sym", "int_asym_dq", "mx_int", "mx_fp", "mx_fp4", "mx_fp8", "nv_fp", "nv_fp4", "fp", "fp8", "fp8_e5m2", "block_fp8", "nvfp4_v2"},
	"quant_method":      {"gptq", "awq", "auto-round", "compressed-tensors", "fp8", "modelopt", "bitsandbytes", "bitnet", "hqq", "mxfp4", "mxfp8", "nvfp4", "fbgemm_fp8", "deepseek_v4_fp8", "marlin", "quark", "aqlm", "mlx", "FP8", "gptq_v2"},
	"quant_algo":        {"FP8", "FP8_PB_WO", "FP8_PER_CHANNEL_PER_TOKEN", "MXFP8", "NVFP4", "NVFP4_AWQ", "W4A16_AWQ", "W4A8_AWQ", "NVFP4_SVD", "MIXED_PRECISION", "INT4_AWQ"},
	"version":           {"gemm", "gemv", "gemv_fast", "llm-awq", "exllama", "marlin", "GEMM", "0.12.2", "0.12rc1", "0.18.0", "0.20.0", "1.0"},
	"mode":              {"affine", "mxfp4", "mxfp8", "nvfp4", "ternary9"},
	"linear_class":      {"bitlinear", "autobitlinear"},
	"quantization_mode": {"offline", "online"},
	"provider":          {"auto-round", "gptqmodel"},
	"weight_block_size": blocksOf, "block_structure": blocksOf,
	"strategy":            {"tensor", "channel", "group", "block", "tensor_group", "token"},
	"type":                {"int", "float"},
	"actorder":            {"group", "weight", "static", "dynamic"},
	"quant_type":          {"nf4", "fp4", "int4", "nvfp4", "mxfp4", "int8"},
	"quantizer":           {"gptqmodel:7.7.0", []any{"auto-round:0.16.1"}},
	"scale_fmt":           {"ue8m0", "float"},
	"fmt":                 {"e4m3", "e5m2"},
	"dtype":               {"float16", "bfloat16", "float32"},
	"shape":               {[]any{json.Number("32"), json.Number("64")}},
	"bnb_4bit_quant_type": {"nf4", "fp4"},
	"transform_config":    {object{"R1": object{}}},
	"convrot":             {},
	"pack_dtype":          {"int32", "int64", "int16"},
}

var (
	bitsOf   = numbers(2, 3, 4, 5, 6, 7, 8, 16, 32)
	groupsOf = append(numbers(-1, 0, 8, 16, 24, 32, 48, 64, 96, 128, 256), []any{json.Number("16"), json.Number("32")})
	blocksOf = []any{numbers(128, 128), numbers(16, 32), numbers(32, 16), numbers(64, 64), numbers(1, 32), numbers(0, 128), numbers(128)}
	anything = []any{nil, true, false, "", "x", json.Number("0"), json.Number("1"), json.Number("1.5"), []any{}, object{}}
)

func numbers(list ...int) (values []any) {
	for _, n := range list {
		values = append(values, json.Number(number(n)))
	}
	return values
}

// homes are the files in which a configuration may stand, and the key that it has there.
var homes = []string{
	"config.json:quantization_config", "config.json:compression_config", "config.json:quantization", "config.json:text_config.quantization_config",
	"hf_quant_config.json:quantization", "quantize_config.json", "quant_config.json", "quantization_config.json",
}

// changesOfObjects lists what may happen to one key of a configuration.
func (p *parts) changesOfObjects() (list []changing) {
	add := func(what string, do func(p *parts)) {
		list = append(list, changing{what, func(p *parts) {
			p.objects = maps.Clone(p.objects)
			do(p)
		}, false})
	}
	for _, name := range slices.Sorted(maps.Keys(p.objects)) {
		if strings.HasSuffix(name, ".json") {
			add(name+" is dropped", func(p *parts) { delete(p.objects, name) })
			for _, home := range homes {
				if file, _, _ := strings.Cut(home, ":"); file != name && p.objects[file] == nil {
					add(name+" is called "+file, func(p *parts) { p.objects[file] = p.objects[name]; delete(p.objects, name) })
					add(name+" stands in "+file+" too", func(p *parts) { p.objects[file] = p.objects[name] })
				}
			}
		}
		for place, in := range objectsIn(p.objects[name], "") {
			in := in
			at := name + ":" + place
			set := func(what string, f func(o object)) {
				add(path.Clean(at)+" "+what, func(p *parts) { p.objects[name] = edited(p.objects[name], place, f) })
			}
			for _, key := range slices.Sorted(maps.Keys(values)) {
				for _, v := range slices.Concat(values[key], anything) {
					if old, there := in[key]; !there || !equal(old, v) {
						set(fmt.Sprintf("has %s: %s", key, must(json.Marshal(v))), func(o object) { o[key] = v })
					}
				}
			}
			for _, key := range slices.Sorted(maps.Keys(in)) {
				v := in[key]
				set("has no "+key, func(o object) { delete(o, key) })
				for _, other := range append(slices.Sorted(maps.Keys(values)), key+"s", "_"+key, strings.ToUpper(key)) {
					if _, there := in[other]; !there {
						set(key+" is called "+other, func(o object) { delete(o, key); o[other] = v })
					}
				}
				for _, home := range homes {
					file, keys, _ := strings.Cut(home, ":")
					if file == name && keys == place {
						continue
					}
					add(fmt.Sprintf("%s %s moves to %s", at, key, home), func(p *parts) {
						p.objects[name] = edited(p.objects[name], place, func(o object) { delete(o, key) })
						p.objects[file] = edited(p.objects[file], keys, func(o object) { o[key] = v })
					})
					if from, ok := v.(object); ok {
						add(fmt.Sprintf("%s %s becomes %s", at, key, home), func(p *parts) {
							p.objects[name] = edited(p.objects[name], place, func(o object) { delete(o, key) })
							p.objects[file] = edited(p.objects[file], keys, func(o object) { maps.Copy(o, from) })
						})
					}
				}
			}
		}
	}
	return list
}

// equal reports whether two values are the same JSON.
func equal(a, b any) bool { return bytes.Equal(must(json.Marshal(a)), must(json.Marshal(b))) }

// objectsIn returns the objects in an object and itself, by their places: keys joined by slashes, which no key has.
func objectsIn(v any, place string) map[string]object {
	o, ok := v.(object)
	if !ok {
		return nil
	}
	list := map[string]object{place: o}
	for key, v := range o {
		maps.Copy(list, objectsIn(v, path.Join(place, key)))
	}
	return list
}

// edited returns a copy of v in which f has changed the object at a place. What is not there is made.
func edited(v any, place string, f func(o object)) any {
	o, _ := v.(object)
	if o = maps.Clone(o); o == nil {
		o = object{}
	}
	if place == "" {
		f(o)
		return o
	}
	key, rest, _ := strings.Cut(place, "/")
	o[key] = edited(o[key], rest, f)
	return o
}
