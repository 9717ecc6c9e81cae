package survey_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/survey"
)

// BenchmarkSmall compares and describes 20,000 tensors of 64 values each.
func BenchmarkSmall(b *testing.B) {
	var tensors []convert.SaveTensor
	for i := range 20_000 {
		var data []byte
		for k := range 64 {
			data = binary.LittleEndian.AppendUint32(data, uint32(0x3c000000+i*k*12345))
		}
		tensors = append(tensors, convert.SaveTensor{Name: fmt.Sprintf("layer.%d.weight", i), DType: layout.F32, Shape: []int{64}, Data: data})
	}
	path := filepath.Join(b.TempDir(), "small.safetensors")
	if err := convert.Save(context.Background(), path, tensors, nil); err != nil {
		b.Fatal(err)
	}
	m, other := open(b, path, nil), open(b, path, nil)
	for name, run := range map[string]func() error{
		"compare": func() error {
			return survey.Compare(context.Background(), m, other, nil, func(*survey.Pair) error { return nil })
		},
		"stats": func() error {
			return survey.Stats(context.Background(), m, nil, func(*survey.TensorStats) error { return nil })
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
