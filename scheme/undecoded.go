package scheme

// packedBytes names what may be BitNet, or integers that ModelOpt packs along the rows, or something else.
const packedBytes = "weights packed in bytes with one scale tensor"

// undecoded lists schemes that are known by the names of their parts and not decoded. docs/quantized.md has the reasons. Sources:
// TensorRT-LLM, exllamav2 and v3, torchao, Quanto, Quark, Nunchaku, AQLM, VPTQ, QuIP#, EETQ, HIGGS.
var undecoded = []scheme{
	{name: "marlin-24", patterns: []pattern{{codesEnd: ".weight_packed", codesTypes: i32, scaleEnds: []string{".scale_packed"}}, {codesEnd: ".B_24", codesTypes: i32, scaleEnds: []string{".s"}}}},
	{name: "awq gemv_fast", patterns: []pattern{{codesEnd: ".qweight", codesTypes: i16, scaleEnds: []string{".scales"}, nameTellsScheme: true}}},
	{name: "svdquant", patterns: []pattern{{codesEnd: ".qweight", codesTypes: i8 | u8, scaleEnds: []string{".wscales"}}}},
	{name: "marlin", patterns: []pattern{{codesEnd: ".B", codesTypes: i32, scaleEnds: []string{".s", ".s_channel"}}}},
	{name: "higgs", patterns: []pattern{{codesEnd: ".weight", codesTypes: i32 | u8 | i8 | i16 | u32, scaleEnds: []string{".tables2"}}}},
	{name: "exl2", patterns: []pattern{{codesEnd: ".q_weight", codesTypes: i32, scaleEnds: []string{".q_scale"}, nameTellsScheme: true}}},
	{name: "exl3", patterns: []pattern{{codesEnd: ".trellis", codesTypes: i16 | i32, scaleEnds: []string{".suh", ".su"}, nameTellsScheme: true}}},
	{name: "aqlm", patterns: []pattern{{codesEnd: ".codes", codesTypes: i16 | i32 | i8 | u8 | i64, scaleEnds: []string{".codebooks"}}}},
	{name: "vptq", patterns: []pattern{{codesEnd: ".indices", codesTypes: i16 | i32 | i64, scaleEnds: []string{".centroids.weight"}}}},
	{name: "quip", patterns: []pattern{{codesEnd: ".Qidxs", codesTypes: i16 | i32 | i64 | u8, scaleEnds: []string{".SU", ".SV"}}}},
	{name: "torchao", patterns: []pattern{{codesEnd: "qdata", codesTypes: i8 | u8 | f8 | i32, scaleEnds: []string{"scale"}}}},
	{name: "quanto", patterns: []pattern{
		{codesEnd: "._data", codesTypes: i8 | u8 | f8, scaleEnds: []string{"._scale"}},
		{codesEnd: "._data._data", codesTypes: i8 | u8, scaleEnds: []string{"._scale"}},
	}},
	{name: "tensorrt-llm", patterns: []pattern{{codesEnd: ".weight", codesTypes: i8 | u8, scaleEnds: []string{".weights_scaling_factor", ".per_channel_scale"}}}},
	{name: "quark", patterns: []pattern{{codesEnd: ".weight", codesTypes: f8 | i8 | u8, scaleEnds: []string{".weight_quantizer.scale"}}}},
	{name: "eetq", patterns: []pattern{{codesEnd: "", codesTypes: i8, scaleEnds: []string{"_scales"}}}},
	{name: packedBytes, patterns: []pattern{{codesEnd: "", codesTypes: u8, scaleEnds: []string{"_scale"}}}},
	{name: "sparse-bitmask", patterns: []pattern{{codesEnd: ".bitmask", codesTypes: u8, scaleEnds: []string{".compressed"}, swapsCodesAndScale: true}}},
}
