// Package scheme tells the parts of quantized weights from tensors that hold weights.
//
// A quantized checkpoint stores one weight as several tensors: codes, and beside them scales, zero
// points and more. The codes alone look like a weight, and are wrong by orders of magnitude. Names,
// types and sizes of the tensors decide; no configuration is read. The package does no I/O, and
// decodes nothing.
package scheme

import (
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// A Part is a tensor's place in a quantized weight.
type Part struct {
	// Scheme names the convention, such as awq-gptq, bnb-4bit, fp8, mlx, nvfp4 or packed.
	Scheme string
	// Codes and Scale name the tensor that holds the codes and the one by which the scheme is known. Scale
	// is empty for an F8 tensor without one.
	Codes, Scale string
}

// Lookup finds a tensor of the model by its name, in whatever file of the model it is.
type Lookup func(name string) (d layout.DType, shape []int, ok bool)

// Find reports whether the tensor called name is part of a quantized weight, or an F8 tensor that
// has no scale and may be one.
func Find(name string, lookup Lookup) (Part, bool) {
	d, shape, ok := lookup(name)
	if !ok {
		return Part{}, false
	}
	for i := range rules {
		if p, ok := rules[i].find(name, d, shape, lookup); ok {
			return p, true
		}
	}
	if slices.Contains(float8, d) {
		return Part{Scheme: "fp8", Codes: name}, true
	}
	return Part{}, false
}

// A rule is one way to name codes and what belongs to them. All names of a weight begin alike.
type rule struct {
	scheme string
	codes  string         // the end of the codes' name
	types  []layout.DType // of the codes; nil for any
	scales []string       // the end of the scale's name, in several spellings
	by     []layout.DType // the scale's types; nil for any
	others []string       // the ends of further parts' names
}

var (
	float8 = []layout.DType{layout.F8_E4M3, layout.F8_E5M2, layout.F8_E4M3FNUZ, layout.F8_E5M2FNUZ}
	int8s  = []layout.DType{layout.I8, layout.U8}
	words  = []layout.DType{layout.I32, layout.U8, layout.I8, layout.I16, layout.U32}
	u8     = []layout.DType{layout.U8}
	i32    = []layout.DType{layout.I32}
	floats = []layout.DType{layout.F32, layout.F16, layout.BF16}
	e8m0   = []layout.DType{layout.F8_E8M0, layout.U8}
)

// rules are by their sources: compressed-tensors, AutoAWQ, GPTQModel, bitsandbytes, transformers
// (FP8 blocks, gpt-oss, EETQ, HIGGS), ModelOpt, TensorRT-LLM, MLX, HQQ, exllamav2 and v3, llama.cpp,
// torchao, Quanto, Quark, Nunchaku, AQLM, VPTQ, QuIP#.
var rules = []rule{
	{"marlin-24", ".weight_packed", words, []string{".scale_packed"}, nil, []string{".meta"}},
	{"sparse", ".compressed", nil, []string{".bitmask"}, u8, []string{".shape", ".row_offsets"}},
	{"packed", "_packed", words, []string{"_scale"}, nil, []string{"_global_scale", "_shape", "_zero_point", "_g_idx"}},
	{"nvfp4", "", u8, []string{"_scale_2"}, floats, []string{"_scale"}},
	{"nvfp4", ".weight", []layout.DType{layout.NVFP4}, []string{".scale", ".weight.scale"}, floats, []string{".input_scale"}},
	{"fp8", "", float8, []string{"_scale_inv", "_scales_inv", "_scale", ".scale"}, nil, []string{"_zero_point", "_g_idx"}},
	{"fp8", ".weight", float8, []string{".scale", ".scale_weight", ".qscale_weight", ".weights_scaling_factor", ".weight_quantizer.scale"}, nil, []string{".weight_quantizer.zero_point"}},
	{"int", "", int8s, []string{"_scale", "_scales"}, nil, []string{"_zero_point", "_g_idx"}},
	{"int", ".weight", int8s, []string{".weights_scaling_factor", ".per_channel_scale", ".weight_quantizer.scale"}, nil, []string{".weight_quantizer.zero_point"}},
	{"mxfp4", ".weight", int8s, []string{".scale"}, e8m0, nil},
	{"mxfp4", "_blocks", u8, []string{"_scales"}, u8, nil},
	{"bnb-int8", ".weight", int8s, []string{".SCB"}, floats, []string{".weight_format"}},
	{"bnb-4bit", "", nil, []string{".absmax"}, nil, []string{
		".quant_map", ".nested_absmax", ".nested_quant_map",
		".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4",
	}},
	{"awq-gptq", ".qweight", words, []string{".scales"}, nil, []string{".qzeros", ".g_idx"}},
	{"mlx", ".weight", []layout.DType{layout.U32}, []string{".scales"}, nil, []string{".biases"}},
	{"hqq", ".W_q", nil, []string{".scale"}, nil, []string{".zero"}},
	{"svdquant", ".qweight", int8s, []string{".wscales"}, nil, []string{".wzeros", ".wcscales", ".wtscale"}},
	{"marlin-24", ".B_24", i32, []string{".s"}, nil, []string{".B_meta"}},
	{"marlin", ".B", i32, []string{".s", ".s_channel"}, nil, []string{".s_group"}},
	{"torchao", "qdata", nil, []string{"scale"}, nil, []string{"zero_point", "per_tensor_scale"}},
	{"quanto", "._data", nil, []string{"._scale"}, nil, []string{"._shift"}},
	{"quanto", "._data._data", nil, []string{"._scale"}, nil, []string{"._shift"}},
	{"higgs", ".weight", words, []string{".tables2"}, nil, []string{".tables", ".scales"}},
	{"exl2", ".q_weight", i32, []string{".q_scale"}, nil, []string{".q_scale_max", ".q_groups", ".q_perm", ".q_invperm"}},
	{"exl3", ".trellis", words, []string{".suh"}, nil, []string{".svh", ".su", ".sv"}},
	{"aqlm", ".codes", words, []string{".codebooks"}, nil, []string{".scales"}},
	{"vptq", ".indices", nil, []string{".centroids.weight"}, nil, []string{".weight_scale", ".weight_bias"}},
	{"quip", ".Qidxs", nil, []string{".SU"}, nil, []string{".SV", ".Wscale"}},
}

// find reports whether the tensor called name, of type d, is a part by rule r.
func (r *rule) find(name string, d layout.DType, shape []int, lookup Lookup) (Part, bool) {
	if stem, ok := strings.CutSuffix(name, r.codes); ok {
		if p, ok := r.whole(stem, d, shape, lookup); ok {
			return p, true
		}
	}
	for _, ends := range [][]string{r.scales, r.others} {
		for _, end := range ends {
			stem, ok := strings.CutSuffix(name, end)
			if !ok {
				continue
			}
			if d, shape, ok := lookup(stem + r.codes); ok {
				if p, ok := r.whole(stem, d, shape, lookup); ok {
					return p, true
				}
			}
		}
	}
	return Part{}, false
}

// whole finds the scale of codes of type d whose name begins with stem. It has no more elements
// than the codes have bits.
func (r *rule) whole(stem string, d layout.DType, shape []int, lookup Lookup) (Part, bool) {
	if !allowed(r.types, d) {
		return Part{}, false
	}
	bytes, err := d.Size(shape)
	if err != nil {
		return Part{}, false
	}
	for _, end := range r.scales {
		by, shape, ok := lookup(stem + end)
		if n, fits := layout.Elements(shape); ok && fits && n > 0 && (n-1)/8 < bytes && allowed(r.by, by) {
			return Part{r.scheme, stem + r.codes, stem + end}, true
		}
	}
	return Part{}, false
}

func allowed(types []layout.DType, d layout.DType) bool {
	return types == nil || slices.Contains(types, d)
}
