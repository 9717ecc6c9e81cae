package loader_test

import (
	"fmt"
	"testing"
	"time"

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

// BenchmarkOpenQuantized opens a checkpoint of 2,000 logical tensors, and the same as it is stored. The
// two take turns, and each counts by its fastest turn.
func BenchmarkOpenQuantized(b *testing.B) {
	path := write(b, "model.safetensors", quantizedFile(2000))
	fastest := [2]time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		for i, stored := range []bool{false, true} {
			begun := time.Now()
			m, err := loader.Open(path, &loader.Options{Stored: stored})
			if err != nil {
				b.Fatal(err)
			}
			fastest[i] = min(fastest[i], time.Since(begun))
			m.Close()
		}
	}
	b.ReportMetric(float64(fastest[0].Nanoseconds()), "logical-ns")
	b.ReportMetric(float64(fastest[1].Nanoseconds()), "stored-ns")
	b.ReportMetric(float64(fastest[0])/float64(fastest[1]), "ratio")
}
