package scheme

// undecoded is a scheme that is known by the names of its parts and not decoded. docs/quantized.md has the reasons. Sources:
// TensorRT-LLM, exllamav2 and v3, torchao, Quanto, Quark, Nunchaku, AQLM, VPTQ, QuIP#, EETQ, HIGGS.
type undecoded struct {
	name     string
	patterns []pattern
}

// packedBytes names what may be BitNet, or integers that ModelOpt packs along the rows, or something else.
const packedBytes = "weights packed in bytes with one scale tensor"

// notDecoded lists the schemes that are not decoded.
var notDecoded = []scheme{
	undecoded{"marlin-24", []pattern{{codes: ".weight_packed", kinds: words, scales: []string{".scale_packed"}}, {codes: ".B_24", kinds: words, scales: []string{".s"}}}},
	undecoded{"awq gemv_fast", []pattern{{codes: ".qweight", kinds: shorts, scales: []string{".scales"}, sure: true}}},
	undecoded{"svdquant", []pattern{{codes: ".qweight", kinds: ints8 | bytes8, scales: []string{".wscales"}}}},
	undecoded{"marlin", []pattern{{codes: ".B", kinds: words, scales: []string{".s", ".s_channel"}}}},
	undecoded{"higgs", []pattern{{codes: ".weight", kinds: words | bytes8 | ints8 | shorts | uwords, scales: []string{".tables2"}}}},
	undecoded{"exl2", []pattern{{codes: ".q_weight", kinds: words, scales: []string{".q_scale"}, sure: true}}},
	undecoded{"exl3", []pattern{{codes: ".trellis", kinds: shorts | words, scales: []string{".suh", ".su"}, sure: true}}},
	undecoded{"aqlm", []pattern{{codes: ".codes", kinds: shorts | words | ints8 | bytes8 | longs, scales: []string{".codebooks"}}}},
	undecoded{"vptq", []pattern{{codes: ".indices", kinds: shorts | words | longs, scales: []string{".centroids.weight"}}}},
	undecoded{"quip", []pattern{{codes: ".Qidxs", kinds: shorts | words | longs | bytes8, scales: []string{".SU", ".SV"}}}},
	undecoded{"torchao", []pattern{{codes: "qdata", kinds: ints8 | bytes8 | float8 | words, scales: []string{"scale"}}}},
	undecoded{"quanto", []pattern{
		{codes: "._data", kinds: ints8 | bytes8 | float8, scales: []string{"._scale"}},
		{codes: "._data._data", kinds: ints8 | bytes8, scales: []string{"._scale"}},
	}},
	undecoded{"tensorrt-llm", []pattern{{codes: ".weight", kinds: ints8 | bytes8, scales: []string{".weights_scaling_factor", ".per_channel_scale"}}}},
	undecoded{"quark", []pattern{{codes: ".weight", kinds: float8 | ints8 | bytes8, scales: []string{".weight_quantizer.scale"}}}},
	undecoded{"eetq", []pattern{{codes: "", kinds: ints8, scales: []string{"_scales"}}}},
	undecoded{packedBytes, []pattern{{codes: "", kinds: bytes8, scales: []string{"_scale"}}}},
	undecoded{"sparse-bitmask", []pattern{{codes: ".bitmask", kinds: bytes8, scales: []string{".compressed"}, inward: true}}},
}

// err returns why the scheme has no values.
func (s undecoded) err() error { return unsupported("%s is not decoded", s.name) }

// names returns the scheme's patterns, with its name and why it is not decoded.
func (s undecoded) names() []pattern {
	list := append([]pattern(nil), s.patterns...)
	for i := range list {
		list[i].scheme, list[i].refused = s.name, s.err()
	}
	return list
}

func (s undecoded) params(*Config) (scheme, error)             { return s, nil }
func (s undecoded) form(*weight) (scheme, error)               { return nil, s.err() }
func (s undecoded) scales(Parts, *Form, *Scales, uint64) error { return s.err() }
