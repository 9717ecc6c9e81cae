package scheme_test

import (
	"testing"

	"github.com/tensormap/tensormap/internal/test/fuzz"
)

// FuzzFind finds weights among any tensors, with any configuration.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{
		"{}\na.weight F8_E4M3 256,200\na.weight_scale_inv F32 2,2\n",
		`{"quantization_config":{"quant_method":"awq","bits":4,"group_size":-1}}` + "\na.qweight I32 128,2\na.qzeros I32 1,2\na.scales F16 1,16\n",
		`{"quantization_config":{"quant_method":"gptq","desc_act":true}}` + "\na.qweight I32 16,16\na.qzeros I32 1,2\na.scales F16 1,16\na.g_idx I32 128\n",
		`{"quantization":{"group_size":64,"bits":4,"a":false,"b":{"bits":8}}}` + "\na.weight U32 8,8\na.scales BF16 8,1\na.biases BF16 8,1\n",
		`{"quantization_config":{"config_groups":{"g":{"targets":["re:.*a$"],"weights":{"num_bits":4,"group_size":32,"block_structure":[1,2]}}}}}` + "\na.weight_packed I32 8,16\na.weight_shape I64 2 \x08\x00\x00\x00\x00\x00\x00\x00\x80\na.weight_scale BF16 8,4\n",
		"{}\na.W_q U8 4,8\na.scale F16 8,1\na.zero F16 8,1\na.shape I64 2\na.axis I32 1\na.nbits I32 1\n",
		"{}\na.weight F8_E4M3 16,16\na.weight_scale F32 2,2\na.comfy_quant U8 30 {\"format\":\"float8_e4m3fn_blockwise\",\"group_size\":8}\n",
		`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear"}}` + "\na.weight U8 8,24\na.weight_scale BF16 1\n",
		`{"quantization_config":{"quant_method":"bitnet","linear_class":"autobitlinear"}}` + "\na.weight BF16 8,24\na.weight_scale F16 1\n",
		"{}\na_blocks U8 2,8,3,16\na_scales U8 2,8,3\nb.weight NVFP4 8,64\nb.scale F32 1\nc.weight I8 4,4\nc.SCB F32 4\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, b []byte) { fuzz.FuzzScheme(b) })
}

// FuzzQuantState reads any text as the description that bitsandbytes keeps in a tensor.
func FuzzQuantState(f *testing.F) {
	f.Add(state("nf4", ""))
	f.Add(state("nf4", `,"nested_blocksize":256,"nested_dtype":"float32","nested_offset":0.01`))
	f.Add([]byte(`{"quant_type":"nf4","blocksize":64,"shape":[-1,"x",1e99]}`))
	f.Fuzz(func(_ *testing.T, b []byte) { fuzz.FuzzQuantState(b) })
}
