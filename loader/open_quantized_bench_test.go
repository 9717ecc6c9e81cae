package loader_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// conventions make the stored tensors of one weight.
var conventions = []struct {
	name     string
	of       func(layer string) []modeltest.Tensor
	metadata string
}{
	{"fp8", func(layer string) []modeltest.Tensor {
		return []modeltest.Tensor{modeltest.Random(layer+".weight", layout.F8_E4M3, 16, 16), modeltest.Random(layer+".weight_scale_inv", layout.F32, 1, 1)}
	}, ""},
	{"gptq", func(layer string) []modeltest.Tensor {
		return []modeltest.Tensor{modeltest.Random(layer+".qweight", layout.I32, 2, 8), modeltest.Random(layer+".qzeros", layout.I32, 1, 1), modeltest.Random(layer+".scales", layout.F16, 1, 8), modeltest.Random(layer+".g_idx", layout.I32, 16)}
	}, fmt.Sprintf(`{"apr2.quantization":%q}`, `{"quant_method":"gptq","bits":4}`)},
	{"nvfp4", func(layer string) []modeltest.Tensor {
		return []modeltest.Tensor{modeltest.Random(layer+".weight", layout.U8, 16, 8), modeltest.Random(layer+".weight_scale", layout.F8_E4M3, 16, 1), modeltest.Random(layer+".weight_scale_2", layout.F32), modeltest.Random(layer+".input_scale", layout.F32)}
	}, ""},
	{"ct-int4", func(layer string) []modeltest.Tensor {
		shape := modeltest.Random(layer+".weight_shape", layout.I64, 2)
		copy(shape.Data, []byte{16, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0})
		return []modeltest.Tensor{modeltest.Random(layer+".weight_packed", layout.I32, 16, 16), modeltest.Random(layer+".weight_scale", layout.BF16, 16, 1), shape}
	}, ""},
	{"bnb-nf4", func(layer string) []modeltest.Tensor {
		const text = `{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [16, 16]}`
		state := modeltest.Random(layer+".weight.quant_state.bitsandbytes__nf4", layout.U8, len(text))
		copy(state.Data, text)
		return []modeltest.Tensor{modeltest.Random(layer+".weight", layout.U8, 128, 1), modeltest.Random(layer+".weight.absmax", layout.F32, 4), modeltest.Random(layer+".weight.quant_map", layout.F32, 16), state}
	}, ""},
}

// BenchmarkOpenQuantized opens a checkpoint of 2,000 logical tensors, and the same as it is stored. The
// two take turns of 20 openings each, so that each finds the heap as it left it, and count by the median of
// their turns.
func BenchmarkOpenQuantized(b *testing.B) {
	const openings = 20
	for _, c := range conventions {
		b.Run(c.name, func(b *testing.B) {
			var tensors []modeltest.Tensor
			for i := range 2000 {
				tensors = append(tensors, c.of(fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj", i/50, i%50))...)
			}
			path := modeltest.Write(b, "model.safetensors", modeltest.SafeTensorsAt(0, c.metadata, tensors...))
			var took [2][]float64 // seconds an opening
			for b.Loop() {
				for i, stored := range []bool{false, true} {
					begun := time.Now()
					for range openings {
						m, err := loader.Open(path, &loader.Options{Stored: stored})
						if err != nil {
							b.Fatal(err)
						}
						if !stored && m.Len() != 2000 {
							b.Fatalf("%d tensors", m.Len())
						}
						m.Close()
					}
					took[i] = append(took[i], time.Since(begun).Seconds()/openings)
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			logical, stored := took[0][len(took[0])/2], took[1][len(took[1])/2]
			b.ReportMetric(1e6*logical, "logical-µs")
			b.ReportMetric(1e6*stored, "stored-µs")
			b.ReportMetric(logical/stored, "ratio")
		})
	}
}
