package scheme

import (
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A weight is decoded only if its scheme, which names, types and shapes tell, goes with what the configuration says
// of the writer. docs/quantized.md has these tables with their sources.

// schemesOfMethod lists the values of quant_method whose weights are decoded, and the schemes that their writers use.
// Without a configuration the schemes remain whose parts say all by themselves.
var schemesOfMethod = map[string][]string{
	"":                   {FP8, IntQuantized, PackQuantized, NVFP4, MXFP4, AWQ, BnbNF4, BnbFP4, BnbInt8, HQQ},
	"auto-round":         {GPTQ, AWQ, FP8, NVFP4, MXFP4},
	"awq":                {AWQ},
	"bitnet":             {BitNet},
	"bitsandbytes":       {BnbNF4, BnbFP4, BnbInt8},
	"compressed-tensors": {IntQuantized, PackQuantized, FP8, NVFP4, MXFP4},
	"deepseek_fp8":       {FP8, MXFP4},
	"deepseek_v4_fp8":    {FP8, MXFP4},
	"fbgemm_fp8":         {FP8},
	"fp8":                {FP8, MXFP4},
	"gptq":               {GPTQ},
	"hqq":                {HQQ},
	"mlx":                {MLXAffine, FP8, NVFP4, MXFP4},
	"modelopt":           {FP8, NVFP4},
	"mxfp4":              {MXFP4},
	"mxfp8":              {FP8},
	"nvfp4":              {NVFP4},
}

// methodAliases are other names of methods.
var methodAliases = map[string]string{
	"auto_round": "auto-round", "intel/auto-round": "auto-round",
	"modelopt_fp4": "modelopt", "modelopt_fp8": "modelopt", "modelopt_mixed": "modelopt",
}

// undecodedMethods are methods that are known and not decoded.
var undecodedMethods = []string{
	"aqlm", "vptq", "quip", "spqr", "eetq", "higgs", "torchao", "quanto", "fp_quant", "marlin", "exl2", "exl3",
	"quark", "gptq_marlin", "awq_marlin", "sinq", "fouroversix", "svdquant",
}

// secondKeys lists for the methods with a second key the values of this key that are known, and their schemes. Source of
// each: compressed-tensors 0.20.0 config/base.py; ModelOpt 0.47.0 export/model_config.py; auto-round 0.16.1 schemes.py.
var secondKeys = map[string]struct {
	key     string
	schemes map[string][]string
}{
	"compressed-tensors": {"format", map[string][]string{
		"": {IntQuantized, PackQuantized, FP8, NVFP4}, "mixed-precision": {IntQuantized, PackQuantized, FP8, NVFP4, MXFP4},
		"int-quantized": {IntQuantized}, "pack-quantized": {PackQuantized}, "naive-quantized": {IntQuantized, FP8},
		"float-quantized": {FP8}, "mxfp8-quantized": {FP8}, "nvfp4-pack-quantized": {NVFP4}, "mxfp4-pack-quantized": {MXFP4},
	}},
	"modelopt": {"quant_algo", map[string][]string{
		"": {FP8, NVFP4}, "mixed_precision": {FP8, NVFP4},
		"fp8": {FP8}, "fp8_pb_real": {FP8}, "fp8_pb_wo": {FP8}, "fp8_per_channel_per_token": {FP8}, "mxfp8": {FP8},
		"nvfp4": {NVFP4}, "nvfp4_awq": {NVFP4}, "w4a16_nvfp4": {NVFP4},
	}},
	"auto-round": {"data_type", map[string][]string{
		"": {GPTQ, AWQ}, "int": {GPTQ, AWQ}, "int_sym": {GPTQ, AWQ}, "int_asym": {GPTQ, AWQ}, "int_sym_gptq": {GPTQ, AWQ},
		"fp": {FP8}, "fp8": {FP8}, "fp8_sym": {FP8}, "fp8_e4m3": {FP8}, "fp8_e5m2": {FP8},
		"block_fp8": {FP8}, "block_fp8_sym": {FP8}, "block_fp8_e4m3": {FP8},
		"mx_fp": {MXFP4, FP8}, "mx_fp_rceil": {MXFP4, FP8}, "mx_fp8": {FP8}, "mx_fp8e4m3": {FP8},
		"mx_fp4": {MXFP4}, "mx_fp4_rceil": {MXFP4}, "mx_fp4e2m1": {MXFP4},
		"nv_fp": {NVFP4}, "nv_fp4": {NVFP4}, "nv_fp4_rtn": {NVFP4}, "nv_fp4_with_static_gs": {NVFP4},
	}},
}

// checkRotation returns an error if a configuration says that weights were rotated before they were quantized. The values of
// such weights are not the model's. A configuration says so by one of four keys, if its value is not empty.
func checkRotation(q layout.Metadata) error {
	for _, key := range []string{"rotation", "rotation_config", "spinquant_config", "transform_config"} {
		v, _ := q.Get(key)
		o, isObject := v.(layout.Metadata)
		if isEmpty := v == nil || v == false || v == "" || isObject && len(o) == 0; !isEmpty {
			return unsupportedf("the weights were turned before they were quantized (%s)", key)
		}
	}
	return nil
}

// checkWriter returns an error unless weights of w.Scheme, which follows from the parts, can come from the writer that the
// configuration names. It suffices if one of layerParams allows the scheme. It returns ErrUnsupported if the scheme needs a
// configuration and there is none. It returns ErrUnsupported for an unknown value of the method's second key: see secondKeys.
// Otherwise the scheme contradicts the configuration, and it returns ErrInvalid.
func (w *weight) checkWriter() error {
	method := w.config.quantMethod
	if !slices.Contains(schemesOfMethod[method], w.Scheme) {
		if method == "" {
			return unsupportedf("codes of %s without a configuration (config.json beside the file) that says how they are stored", w.Scheme)
		}
		return invalidf("codes of %s in a checkpoint of %s (quant_method)", w.Scheme, method)
	}
	second, ok := secondKeys[method]
	if !ok {
		return nil
	}
	hasIntegers := w.Scheme == IntQuantized || w.Scheme == PackQuantized // in compressed-tensors' type: int. The others have floats
	var lastValue string
	for _, p := range w.layerParams() {
		lastValue = cmp.Or(p.format, w.params.format)
		schemes, isKnown := second.schemes[lastValue]
		if !isKnown {
			return unsupportedf("quantized as %s, which is not decoded (%s)", layout.Quote(lastValue), second.key)
		}
		typeFits := p.intOrFloat == "" || hasIntegers == (p.intOrFloat == "int")
		if typeFits && slices.Contains(schemes, w.Scheme) {
			return nil
		}
	}
	return invalidf("codes of %s in a checkpoint of %s %s (%s, type)", w.Scheme, method, layout.Quote(lastValue), second.key)
}
