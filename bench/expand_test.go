package bench

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// BenchmarkRow reads one row of an embedding, a different one each time, out of 128,256
// rows of 4,096 values in Q4_0: 295 MB of which a row is 2,304 bytes. rows=near stays among
// a thousand rows, as the tokens of a text do; rows=far does not.
func BenchmarkRow(b *testing.B) {
	const rows, cols = 128_256, 4_096
	desc := []layout.Tensor{{Name: []byte("token_embd.weight"), DType: layout.Q4_0, Shape: []int{rows, cols}}}
	m := open(b, sparseAPR2(b, desc))
	if _, err := m.WarmAll(b.Context(), nil); err != nil { // first touches are page faults
		b.Fatal(err)
	}
	t := firstTensor(b, m)
	for _, among := range []struct {
		name string
		rows uint64
	}{{"near", 1000}, {"far", rows}} {
		b.Run("rows="+among.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			dst := make([]float32, cols)
			b.SetBytes(4 * cols)
			b.ReportAllocs()
			for b.Loop() {
				if err := t.DequantizeRows(dst, rng.Uint64N(among.rows), 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// randomAPR2 is an APR2 file of one tensor of random bytes.
func randomAPR2(b testing.TB, d layout.DType, shape ...int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), d.String()+".apr")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w, err := apr2.NewWriter(f, slices.Values([]layout.Tensor{{Name: []byte("w"), DType: d, Shape: shape}}), nil)
	if err != nil {
		b.Fatal(err)
	}
	size, err := d.Size(shape)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(data)
	if err := w.WriteTensor(data); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkLazy asks for the values of a 64 MiB tensor (as float32) that is stored
// quantized: state=cold expands it each time into fresh memory, state=into into memory
// that is reused, state=cached finds what an earlier call has left.
func BenchmarkLazy(b *testing.B) {
	const rows, cols = 4096, 4096
	for _, d := range []layout.DType{layout.Q4_0, layout.Q8_0, layout.F16, layout.Q6_K} {
		path := randomAPR2(b, d, rows, cols)
		b.Run("type="+d.String()+"/state=cold", func(b *testing.B) {
			m, err := loader.Open(path, &loader.Options{CacheBytes: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			benchmarkFloat32s(b, firstTensor(b, m))
		})
		b.Run("type="+d.String()+"/state=into", func(b *testing.B) {
			t := firstTensor(b, open(b, path))
			dst := make([]float32, rows*cols)
			b.SetBytes(4 * rows * cols)
			b.ReportAllocs()
			for b.Loop() {
				if err := t.Dequantize(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("type="+d.String()+"/state=cached", func(b *testing.B) {
			benchmarkFloat32s(b, firstTensor(b, open(b, path)))
		})
	}
}

func benchmarkFloat32s(b *testing.B, t loader.Tensor) {
	b.SetBytes(int64(4 * t.Elements()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Float32s(); err != nil {
			b.Fatal(err)
		}
	}
}
