package bench

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"

	"github.com/x448/float16"
)

// BenchmarkAs writes 16 Mi values as F16: by=loader with WriteAs, by=loop as converters do it, with Float32s, a conversion of
// each value and binary.Write. MB/s counts what is written.
func BenchmarkAs(b *testing.B) {
	for _, d := range []layout.DType{layout.BF16, layout.F32, layout.Q4_0, layout.Q6_K} {
		m, err := loader.Open(randomAPR2(b, d, 4096, 4096), &loader.Options{CacheBytes: -1})
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
		t := firstTensor(b, m)
		for by, write := range map[string]func(w io.Writer) error{
			"loader": func(w io.Writer) error { _, err := t.WriteAs(b.Context(), w, layout.F16); return err },
			"loop": func(w io.Writer) error {
				values, err := t.Float32s()
				if err != nil {
					return err
				}
				halves := make([]uint16, len(values))
				for i, f := range values {
					halves[i] = float16.Fromfloat32(f).Bits()
				}
				return binary.Write(w, binary.LittleEndian, halves)
			},
		} {
			b.Run("from="+d.String()+"/by="+by, func(b *testing.B) {
				b.SetBytes(int64(2 * t.Elements()))
				b.ReportAllocs()
				for b.Loop() {
					if err := write(io.Discard); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
