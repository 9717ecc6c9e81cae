package trust_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// BenchmarkOpen opens APR2 files of 2,000 tensors, signed and verified, and not signed.
func BenchmarkOpen(b *testing.B) {
	var tensors []modeltest.Tensor
	for i := range 2000 {
		tensors = append(tensors, modeltest.Tensor{Name: fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), DType: layout.F32, Shape: []int{64, 64}, Data: modeltest.Counting(4 * 64 * 64)})
	}
	in, err := loader.OpenBytes(modeltest.SafeTensors(tensors...), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	signer, key := newKey(b)
	for name, opts := range map[string]*convert.Options{"unsigned": {}, "signed": {Signer: signer}} {
		path := filepath.Join(b.TempDir(), "m.apr")
		if err := os.WriteFile(path, write(b, in, opts)[0], 0o666); err != nil {
			b.Fatal(err)
		}
		var how loader.Options
		if opts.Signer != nil {
			how.Trust = key
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m, err := loader.Open(path, &how)
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
	}
}
