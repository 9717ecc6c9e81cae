package scheme

// The names of the schemes that can be decoded.
const (
	AWQ           = "awq"
	GPTQ          = "gptq"
	BnbNF4        = "bnb-nf4"
	BnbFP4        = "bnb-fp4"
	BnbInt8       = "bnb-int8"
	FP8           = "fp8" // of any granularity, whoever wrote it; of groups of 32 too
	IntQuantized  = "int-quantized"
	PackQuantized = "pack-quantized"
	NVFP4         = "nvfp4" // of compressed-tensors, ModelOpt, MLX, and GGUF with a companion scale
	MXFP4         = "mxfp4" // of gpt-oss, compressed-tensors, MLX, DeepSeek-V4
	MLXAffine     = "mlx-affine"
	HQQ           = "hqq"
	BitNet        = "bitnet" // ternary codes of transformers' BitLinear and AutoBitLinear
)

// init registers all schemes. Patterns whose ends of codes' names are equally long are tried in this order. docs/architecture.md says
// how to add a scheme.
func init() {
	register(fp8{}, intQuantized{}, packQuantized{}, nvfp4{}, mxfp4{}, mlxAffine{}, gptq{}, awq{}, bnb4{}, bnbInt8{}, hqq{}, bitnet{})
	register(notDecoded...)
}
