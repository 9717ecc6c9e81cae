package loader_test

import (
	"fmt"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
)

// BenchmarkQuantizedRow reads one row of 4,096 among a thousand of weights that are stored as several tensors.
func BenchmarkQuantizedRow(b *testing.B) {
	const rows, cols = 1024, 4096
	shape := modeltest.Random("a.weight_shape", layout.I64, 2)
	copy(shape.Data, []byte{0, rows >> 8, 0, 0, 0, 0, 0, 0, 0, cols >> 8, 0, 0, 0, 0, 0, 0})
	for _, c := range []struct {
		name, metadata string
		of             []modeltest.Tensor
	}{
		{"fp8", "", []modeltest.Tensor{modeltest.Random("a.weight", layout.F8_E4M3, rows, cols), modeltest.Random("a.weight_scale_inv", layout.F32, rows/128, cols/128)}},
		{"ct-int4", "", []modeltest.Tensor{modeltest.Random("a.weight_packed", layout.I32, rows, cols/8), modeltest.Random("a.weight_scale", layout.BF16, rows, cols/128), shape}},
		{"nvfp4", "", []modeltest.Tensor{modeltest.Random("a.weight", layout.U8, rows, cols/2), modeltest.Random("a.weight_scale", layout.F8_E4M3, rows, cols/16), modeltest.Random("a.weight_scale_2", layout.F32)}},
		{"mlx", fmt.Sprintf(`{"apr2.quantization":%q}`, `{"group_size":64,"bits":4}`), []modeltest.Tensor{modeltest.Random("a.weight", layout.U32, rows, cols/8), modeltest.Random("a.scales", layout.BF16, rows, cols/64), modeltest.Random("a.biases", layout.BF16, rows, cols/64)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := tensor(b, openBytes(b, modeltest.SafeTensorsAt(0, c.metadata, c.of...), nil), "a.weight")
			dst := make([]float32, cols)
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				if err := w.DequantizeRows(dst, i*389%rows, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
