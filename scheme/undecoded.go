package scheme

// undecoded is a scheme that is known by the names of its parts and not decoded. docs/quantized.md has the reasons. Sources:
// TensorRT-LLM, exllamav2 and v3, torchao, Quanto, Quark, Nunchaku, AQLM, VPTQ, QuIP#, EETQ, HIGGS.
type undecoded struct {
	name string
	list []pattern
}

// packedBytes names what may be BitNet, or integers that ModelOpt packs along the rows, or something else.
const packedBytes = "weights packed in bytes with one scale tensor"

// notDecoded lists the schemes that are not decoded.
var notDecoded = []scheme{
	undecoded{"marlin-24", []pattern{{codesEnd: ".weight_packed", codesTypes: i32Codes, scaleEnds: []string{".scale_packed"}}, {codesEnd: ".B_24", codesTypes: i32Codes, scaleEnds: []string{".s"}}}},
	undecoded{"awq gemv_fast", []pattern{{codesEnd: ".qweight", codesTypes: i16Codes, scaleEnds: []string{".scales"}, nameDecides: true}}},
	undecoded{"svdquant", []pattern{{codesEnd: ".qweight", codesTypes: i8Codes | u8Codes, scaleEnds: []string{".wscales"}}}},
	undecoded{"marlin", []pattern{{codesEnd: ".B", codesTypes: i32Codes, scaleEnds: []string{".s", ".s_channel"}}}},
	undecoded{"higgs", []pattern{{codesEnd: ".weight", codesTypes: i32Codes | u8Codes | i8Codes | i16Codes | u32Codes, scaleEnds: []string{".tables2"}}}},
	undecoded{"exl2", []pattern{{codesEnd: ".q_weight", codesTypes: i32Codes, scaleEnds: []string{".q_scale"}, nameDecides: true}}},
	undecoded{"exl3", []pattern{{codesEnd: ".trellis", codesTypes: i16Codes | i32Codes, scaleEnds: []string{".suh", ".su"}, nameDecides: true}}},
	undecoded{"aqlm", []pattern{{codesEnd: ".codes", codesTypes: i16Codes | i32Codes | i8Codes | u8Codes | i64Codes, scaleEnds: []string{".codebooks"}}}},
	undecoded{"vptq", []pattern{{codesEnd: ".indices", codesTypes: i16Codes | i32Codes | i64Codes, scaleEnds: []string{".centroids.weight"}}}},
	undecoded{"quip", []pattern{{codesEnd: ".Qidxs", codesTypes: i16Codes | i32Codes | i64Codes | u8Codes, scaleEnds: []string{".SU", ".SV"}}}},
	undecoded{"torchao", []pattern{{codesEnd: "qdata", codesTypes: i8Codes | u8Codes | f8Codes | i32Codes, scaleEnds: []string{"scale"}}}},
	undecoded{"quanto", []pattern{
		{codesEnd: "._data", codesTypes: i8Codes | u8Codes | f8Codes, scaleEnds: []string{"._scale"}},
		{codesEnd: "._data._data", codesTypes: i8Codes | u8Codes, scaleEnds: []string{"._scale"}},
	}},
	undecoded{"tensorrt-llm", []pattern{{codesEnd: ".weight", codesTypes: i8Codes | u8Codes, scaleEnds: []string{".weights_scaling_factor", ".per_channel_scale"}}}},
	undecoded{"quark", []pattern{{codesEnd: ".weight", codesTypes: f8Codes | i8Codes | u8Codes, scaleEnds: []string{".weight_quantizer.scale"}}}},
	undecoded{"eetq", []pattern{{codesEnd: "", codesTypes: i8Codes, scaleEnds: []string{"_scales"}}}},
	undecoded{packedBytes, []pattern{{codesEnd: "", codesTypes: u8Codes, scaleEnds: []string{"_scale"}}}},
	undecoded{"sparse-bitmask", []pattern{{codesEnd: ".bitmask", codesTypes: u8Codes, scaleEnds: []string{".compressed"}, swapsCodesAndScale: true}}},
}

// err returns an ErrUnsupported that names the scheme.
func (s undecoded) err() error { return unsupportedf("%s is not decoded", s.name) }

// patterns returns the scheme's patterns, with its name and why it is not decoded.
func (s undecoded) patterns() []pattern {
	list := append([]pattern(nil), s.list...)
	for i := range list {
		list[i].schemeName, list[i].refusal = s.name, s.err()
	}
	return list
}

// configure reads nothing, and setForm and readScales are never called: addMatch refuses weights of such patterns.
func (s undecoded) configure(*Config) (scheme, error)              { return s, nil }
func (s undecoded) setForm(*weight) (scheme, error)                { return nil, s.err() }
func (s undecoded) readScales(Parts, *Form, *Scales, uint64) error { return s.err() }
