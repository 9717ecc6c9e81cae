package loader_test

import (
	"fmt"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// quantizedFile makes a checkpoint of n FP8 weights, each with its block scales.
func quantizedFile(n int) []byte {
	var tensors []content
	for i := range n {
		name := fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/50, i%50)
		tensors = append(tensors, random(name, layout.F8_E4M3, 16, 16), random(name+"_scale_inv", layout.F32, 1, 1))
	}
	return safeTensors(tensors)
}

// BenchmarkOpenQuantized opens a checkpoint of 2,000 logical tensors, and the same as it is stored.
func BenchmarkOpenQuantized(b *testing.B) {
	path := write(b, "model.safetensors", quantizedFile(2000))
	for _, stored := range []bool{false, true} {
		b.Run(fmt.Sprintf("stored=%v", stored), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m, err := loader.Open(path, &loader.Options{Stored: stored})
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
	}
}
