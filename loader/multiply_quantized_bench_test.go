package loader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
)

// BenchmarkQuantizedMatVec multiplies logical weights of 4096 × 4096: by MatVec, and by rows that are
// expanded and summed in a loop. It counts a byte for each weight.
func BenchmarkQuantizedMatVec(b *testing.B) {
	const rows, cols = 4096, 4096
	shape := modeltest.Random("a.weight_shape", layout.I64, 2)
	copy(shape.Data, []byte{0, rows >> 8, 0, 0, 0, 0, 0, 0, 0, cols >> 8, 0, 0, 0, 0, 0, 0})
	for _, c := range []struct {
		name string
		of   []modeltest.Tensor
	}{
		{"fp8", []modeltest.Tensor{modeltest.Random("a.weight", layout.F8_E4M3, rows, cols), modeltest.Random("a.weight_scale_inv", layout.F32, rows/128, cols/128)}},
		{"ct-int4", []modeltest.Tensor{modeltest.Random("a.weight_packed", layout.I32, rows, cols/8), modeltest.Random("a.weight_scale", layout.BF16, rows, cols/128), shape}},
		{"gptq", []modeltest.Tensor{modeltest.Random("a.qweight", layout.I32, cols/8, rows), modeltest.Random("a.qzeros", layout.I32, cols/128, rows/8), modeltest.Random("a.scales", layout.F16, cols/128, rows)}},
	} {
		for _, part := range c.of {
			for i, v := range part.Data {
				switch d := part.DType; {
				case d == layout.F32 && i%4 == 3, d == layout.BF16 && i%2 == 1:
					part.Data[i] = 0x3c
				case d == layout.F16 && i%2 == 1:
					part.Data[i] = 0x1c
				case d == layout.F8_E4M3 && (v&0x78 == 0 || v&0x7f == 0x7f): // weights below 2⁻⁶ are rare, and none is a NaN
					part.Data[i] = v ^ 0x28
				}
			}
		}
		metadata := ""
		if c.name == "gptq" {
			metadata = fmt.Sprintf(`{"apr2.quantization":%q}`, `{"quant_method":"gptq","checkpoint_format":"gptq_v2","sym":false}`)
		}
		w := tensor(b, openBytes(b, modeltest.SafeTensorsAt(0, metadata, c.of...), nil), "a.weight")
		x, dst, row := make([]float32, cols), make([]float32, rows), make([]float32, 16*cols)
		for i := range x {
			x[i] = float32(rand.NormFloat64())
		}
		b.Run(c.name+"/MatVec", func(b *testing.B) {
			b.SetBytes(rows * cols)
			for b.Loop() {
				if err := w.MatVec(context.Background(), dst, x); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/loop", func(b *testing.B) {
			b.SetBytes(rows * cols)
			for b.Loop() {
				for r := 0; r < rows; r += 16 {
					if err := w.DequantizeRows(row, uint64(r), 16); err != nil {
						b.Fatal(err)
					}
					for i := range 16 {
						sum := float32(0)
						for j, v := range row[i*cols:][:cols] {
							sum += v * x[j]
						}
						dst[r+i] = sum
					}
				}
			}
		})
	}
}
