package scheme

import "github.com/tensormap/tensormap/layout"

// A convention is one way to name and type the parts of a weight. All names begin with the same stem.
type convention struct {
	scheme   string
	codes    string     // the end of the codes' name
	name     string     // the end of the weight's name
	kinds    kind       // of the codes
	scales   []string   // the ends of names that make it this convention
	by       scaleTypes // of that tensor; 0 for any
	role     Role       // of that tensor
	others   []companion
	contents uint16 // a bit for each role of parts that tell the shape
	sure     bool   // the codes' name alone decides
	inward   bool   // the search begins at the tensor with the role, and finds the codes
	form     func(*shaping) error
}

// companion is a part that may be there.
type companion struct {
	end   string
	role  Role
	layer bool // the name begins with the stem less ".weight"
}

// scaleTypes is a set of types that scales have.
type scaleTypes uint8

const (
	floats scaleTypes = 1 << iota // F32, F16, BF16
	e4m3
	e8m0
	u8
)

var scaleKinds = [256]scaleTypes{layout.F32: floats, layout.F16: floats, layout.BF16: floats, layout.F8_E4M3: e4m3, layout.F8_E8M0: e8m0, layout.U8: u8}

var (
	ofTensors = []companion{ // compressed-tensors, and others that spell alike
		{"_zero_point", ZeroPoint, false},
		{"_g_idx", GroupIndex, false},
		{".input_scale", InputScale, true},
		{".input_zero_point", InputScale, true},
		{".input_global_scale", InputScale, true},
		{".comfy_quant", QuantState, true},
	}
	ofPacked = append([]companion{{"_shape", Shape, false}, {"_global_scale", GlobalScale, false}}, ofTensors...)
	ofBnb    = []companion{
		{".quant_state.bitsandbytes__nf4", QuantState, false},
		{".quant_state.bitsandbytes__fp4", QuantState, false},
		{".quant_map", QuantMap, false},
		{".nested_absmax", NestedScale, false},
		{".nested_quant_map", NestedMap, false},
	}
	ofBnbState = append(ofBnb[2:], companion{".absmax", Scale, false})
	ofHQQ      = []companion{
		{".zero", ZeroPoint, false}, {".shape", Shape, false}, {".axis", Setting, false}, {".nbits", Setting, false},
		{".group_size", Setting, false}, {".packing", Setting, false}, {".unpack_view_dtype", Setting, false},
		{".view_as_float", Setting, false}, {".quant_scale", Setting, false}, {".quant_zero", Setting, false},
		{".compute_dtype", Setting, false}, {".offload_meta", Setting, false}, {".round_zero", Setting, false},
		{".channel_wise", Setting, false}, {".optimize", Setting, false}, {".stores_quant_config", Setting, false},
		{".encoded_state_dict", Setting, false}, {".quant_config", Setting, false},
	}
)

// packedBytes names what may be BitNet, or integers that ModelOpt packs along the rows, or something else.
const packedBytes = "weights packed in bytes with one scale tensor"

// conventions are asked in this order. Sources: compressed-tensors, transformers (FP8 blocks,
// gpt-oss, DeepSeek-V4, BitNet, EETQ, HIGGS), ModelOpt, ComfyUI, AutoAWQ, GPTQModel, bitsandbytes, MLX, Ollama, HQQ, llama.cpp;
// for those without a form: TensorRT-LLM, exllamav2 and v3, torchao, Quanto, Quark, Nunchaku, AQLM,
// VPTQ, QuIP#.
var conventions = []convention{
	{scheme: "marlin-24", codes: ".weight_packed", kinds: words, scales: []string{".scale_packed"}},
	{scheme: PackQuantized, codes: "_packed", kinds: words, scales: []string{"_scale"}, by: floats, role: Scale, others: ofPacked, contents: 1 << Shape, sure: true, form: (*shaping).packQuantized},
	{scheme: NVFP4, codes: "_packed", kinds: bytes8 | float4, scales: []string{"_scale"}, by: e4m3, role: Scale, others: ofPacked, form: (*shaping).nvfp4Packed},
	{scheme: MXFP4, codes: "_packed", kinds: bytes8 | float4, scales: []string{"_scale"}, by: u8 | e8m0, role: Scale, others: ofPacked, sure: true, form: (*shaping).mxfp4Packed},
	{scheme: NVFP4, codes: "", kinds: bytes8 | float4, scales: []string{"_scale_2"}, by: floats, role: GlobalScale, others: append([]companion{{"_scale", Scale, false}}, ofTensors...), contents: 1 << QuantState, form: (*shaping).nvfp4ModelOpt},
	{scheme: NVFP4, codes: ".weight", name: ".weight", kinds: blocks, scales: []string{".scale", ".weight.scale"}, by: floats, role: Scale, others: []companion{{".input_scale", InputScale, false}}, form: (*shaping).nvfp4GGUF},
	{scheme: FP8, codes: "", kinds: float8, scales: []string{"_scale_inv", "_scale", "_scales_inv"}, by: floats | e8m0 | u8, role: Scale, others: ofTensors, contents: 1 << QuantState, form: (*shaping).bytes},
	{scheme: FP8, codes: ".weight", name: ".weight", kinds: float8, scales: []string{".scale", ".qscale_weight", ".scale_weight", ".weights_scaling_factor"}, by: floats | e8m0, role: Scale, others: []companion{{".qscale_act", InputScale, false}, {".input_scale", InputScale, false}, {".scale_input", InputScale, false}, {".activation_scaling_factor", InputScale, false}}, form: (*shaping).bytes},
	{scheme: BnbInt8, codes: ".weight", name: ".weight", kinds: ints8, scales: []string{".SCB"}, by: floats, role: Scale, others: []companion{{".weight_format", Layout, false}}, form: (*shaping).bnbInt8},
	{scheme: MXFP4, codes: ".weight", name: ".weight", kinds: ints8 | bytes8 | float4, scales: []string{".scale"}, by: e8m0, role: Scale, form: (*shaping).mxfp4Packed},
	{scheme: MXFP4, codes: "", kinds: float4, scales: []string{"_scale"}, by: e8m0, role: Scale, form: (*shaping).mxfp4Packed},
	{scheme: NVFP4, codes: ".weight", name: ".weight", kinds: float4, scales: []string{".scale"}, by: e4m3, role: Scale, others: []companion{{".scale_2", GlobalScale, false}, {".global_scale", GlobalScale, false}}, form: (*shaping).nvfp4Alone},
	{scheme: IntQuantized, codes: "", kinds: ints8, scales: []string{"_scale"}, by: floats, role: Scale, others: ofTensors, contents: 1 << QuantState, form: (*shaping).bytes},
	{scheme: IntQuantized, codes: ".weight", name: ".weight", kinds: ints8, scales: []string{".scale_weight"}, by: floats, role: Scale, others: []companion{{".scale_input", InputScale, false}}, form: (*shaping).bytes},
	{scheme: MXFP4, codes: "_blocks", kinds: bytes8, scales: []string{"_scales"}, by: u8 | e8m0, role: Scale, form: (*shaping).mxfp4Blocks},
	{scheme: BnbNF4, codes: "", kinds: bytes8, scales: []string{".absmax"}, role: Scale, others: ofBnb, contents: 1 << QuantState, form: (*shaping).bnb4},
	{scheme: BnbNF4, codes: ".quant_state.bitsandbytes__nf4", kinds: bytes8, scales: []string{""}, role: QuantState, others: ofBnbState, contents: 1 << QuantState, inward: true, form: (*shaping).bnb4},
	{scheme: BnbFP4, codes: ".quant_state.bitsandbytes__fp4", kinds: bytes8, scales: []string{""}, role: QuantState, others: ofBnbState, contents: 1 << QuantState, inward: true, form: (*shaping).bnb4},
	{scheme: GPTQ, codes: ".qweight", name: ".weight", kinds: words, scales: []string{".scales"}, by: floats, role: Scale, others: []companion{{".qzeros", ZeroPoint, false}, {".g_idx", GroupIndex, false}}, sure: true, form: (*shaping).qweight},
	{scheme: MLXAffine, codes: ".weight", name: ".weight", kinds: uwords, scales: []string{".scales"}, by: floats | u8 | e8m0 | e4m3, role: Scale, others: []companion{{".biases", Bias, false}}, form: (*shaping).mlx},
	{scheme: MLXAffine, codes: ".weight", name: ".weight", kinds: uwords, scales: []string{".weight.scale"}, by: floats | u8 | e8m0 | e4m3, role: Scale, others: []companion{{".weight.bias", Bias, false}, {".weight.global_scale", GlobalScale, false}}, form: (*shaping).mlx},
	{scheme: HQQ, codes: ".W_q", name: ".weight", kinds: bytes8 | words, scales: []string{".scale"}, by: floats, role: Scale, others: ofHQQ, contents: 1<<Shape | 1<<Setting, sure: true, form: (*shaping).hqq},

	{scheme: "awq gemv_fast", codes: ".qweight", kinds: shorts, scales: []string{".scales"}, sure: true},
	{scheme: "svdquant", codes: ".qweight", kinds: ints8 | bytes8, scales: []string{".wscales"}},
	{scheme: "marlin-24", codes: ".B_24", kinds: words, scales: []string{".s"}},
	{scheme: "marlin", codes: ".B", kinds: words, scales: []string{".s", ".s_channel"}},
	{scheme: "higgs", codes: ".weight", kinds: words | bytes8 | ints8 | shorts | uwords, scales: []string{".tables2"}},
	{scheme: "exl2", codes: ".q_weight", kinds: words, scales: []string{".q_scale"}, sure: true},
	{scheme: "exl3", codes: ".trellis", kinds: shorts | words, scales: []string{".suh", ".su"}, sure: true},
	{scheme: "aqlm", codes: ".codes", kinds: shorts | words | ints8 | bytes8 | longs, scales: []string{".codebooks"}},
	{scheme: "vptq", codes: ".indices", kinds: shorts | words | longs, scales: []string{".centroids.weight"}},
	{scheme: "quip", codes: ".Qidxs", kinds: shorts | words | longs | bytes8, scales: []string{".SU", ".SV"}},
	{scheme: "torchao", codes: "qdata", kinds: ints8 | bytes8 | float8 | words, scales: []string{"scale"}},
	{scheme: "quanto", codes: "._data", kinds: ints8 | bytes8 | float8, scales: []string{"._scale"}},
	{scheme: "quanto", codes: "._data._data", kinds: ints8 | bytes8, scales: []string{"._scale"}},
	{scheme: "tensorrt-llm", codes: ".weight", kinds: ints8 | bytes8, scales: []string{".weights_scaling_factor", ".per_channel_scale"}},
	{scheme: "quark", codes: ".weight", kinds: float8 | ints8 | bytes8, scales: []string{".weight_quantizer.scale"}},
	{scheme: "eetq", codes: "", kinds: ints8, scales: []string{"_scales"}},
	{scheme: BitNet, codes: "", kinds: bytes8, scales: []string{"_scale"}, by: floats, role: Scale, form: (*shaping).bitnet},
	{scheme: packedBytes, codes: "", kinds: bytes8, scales: []string{"_scale"}},
	{scheme: "sparse-bitmask", codes: ".bitmask", kinds: bytes8, scales: []string{".compressed"}, inward: true},
}
