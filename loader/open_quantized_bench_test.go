package loader_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// conventions make the stored tensors of one weight.
var conventions = []struct {
	name string
	of   func(layer string) []content
}{
	{"fp8", func(layer string) []content {
		return []content{random(layer+".weight", layout.F8_E4M3, 16, 16), random(layer+".weight_scale_inv", layout.F32, 1, 1)}
	}},
	{"gptq", func(layer string) []content {
		return []content{random(layer+".qweight", layout.I32, 2, 8), random(layer+".qzeros", layout.I32, 1, 1), random(layer+".scales", layout.F16, 1, 8), random(layer+".g_idx", layout.I32, 16)}
	}},
	{"nvfp4", func(layer string) []content {
		return []content{random(layer+".weight", layout.U8, 16, 8), random(layer+".weight_scale", layout.F8_E4M3, 16, 1), random(layer+".weight_scale_2", layout.F32), random(layer+".input_scale", layout.F32)}
	}},
	{"ct-int4", func(layer string) []content {
		shape := random(layer+".weight_shape", layout.I64, 2)
		copy(shape.data, []byte{16, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0})
		return []content{random(layer+".weight_packed", layout.I32, 16, 16), random(layer+".weight_scale", layout.BF16, 16, 1), shape}
	}},
	{"bnb-nf4", func(layer string) []content {
		const text = `{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [16, 16]}`
		state := random(layer+".weight.quant_state.bitsandbytes__nf4", layout.U8, len(text))
		copy(state.data, text)
		return []content{random(layer+".weight", layout.U8, 128, 1), random(layer+".weight.absmax", layout.F32, 4), random(layer+".weight.quant_map", layout.F32, 16), state}
	}},
}

// BenchmarkOpenQuantized opens a checkpoint of 2,000 logical tensors, and the same as it is stored. The
// two take turns, each with an empty heap, and count by their medians.
func BenchmarkOpenQuantized(b *testing.B) {
	for _, c := range conventions {
		b.Run(c.name, func(b *testing.B) {
			var tensors []content
			for i := range 2000 {
				tensors = append(tensors, c.of(fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj", i/50, i%50))...)
			}
			path := write(b, "model.safetensors", safeTensors(tensors))
			var took [2][]time.Duration
			for b.Loop() {
				for i, stored := range []bool{false, true} {
					runtime.GC()
					begun := time.Now()
					m, err := loader.Open(path, &loader.Options{Stored: stored})
					took[i] = append(took[i], time.Since(begun))
					if err != nil {
						b.Fatal(err)
					}
					if !stored && m.Len() != 2000 {
						b.Fatalf("%d tensors", m.Len())
					}
					m.Close()
				}
			}
			median := func(i int) float64 {
				slices.Sort(took[i])
				return float64(took[i][len(took[i])/2].Nanoseconds())
			}
			b.ReportMetric(median(0), "logical-ns")
			b.ReportMetric(median(1), "stored-ns")
			b.ReportMetric(median(0)/median(1), "ratio")
		})
	}
}
