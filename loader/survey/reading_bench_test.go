package survey_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
)

// BenchmarkReading compares statistics with reading alone, of a file in the page cache, on all cores.
func BenchmarkReading(b *testing.B) {
	const elements = 32 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, elements)
	for i := range values {
		values[i] = float32(rng.NormFloat64() / 50)
	}
	f32 := filepath.Join(b.TempDir(), "f32.safetensors")
	bf16 := filepath.Join(b.TempDir(), "bf16.safetensors")
	err := convert.Save(context.Background(), f32, []convert.SaveTensor{{Name: "w", DType: layout.F32, Shape: []int{elements}, Data: mmapio.Bytes(values)}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := convert.Write(context.Background(), open(b, f32, nil), bf16, &convert.Options{DType: layout.BF16, All: true}); err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{f32, bf16} {
		m := open(b, path, nil)
		x, err := m.Tensor("w")
		if err != nil {
			b.Fatal(err)
		}
		for name, run := range map[string]func() error{
			"read": func() error { return readAll(x) },
			"stats": func() error {
				return survey.Stats(context.Background(), m, &survey.StatsOptions{BySigma: true}, func(*survey.TensorStats) error { return nil })
			},
		} {
			b.Run(fmt.Sprintf("%v/%s", x.DType(), name), func(b *testing.B) {
				b.SetBytes(int64(x.RawBytes()))
				for b.Loop() {
					if err := run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// readAll reads the bytes of x on all cores.
func readAll(x loader.Tensor) error {
	const part = 1 << 22
	n := (x.RawBytes() + part - 1) / part
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(parts iter.Seq[uint64]) error {
		b := mmapio.AlignedBytes(1 << 18)
		for p := range parts {
			for off := p * part; off < min((p+1)*part, x.RawBytes()); off += uint64(len(b)) {
				if _, err := x.ReadAt(b[:min(uint64(len(b)), x.RawBytes()-off)], int64(off)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
