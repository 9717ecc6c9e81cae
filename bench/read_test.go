package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// BenchmarkView takes a typed view of a mapped tensor; nothing is read.
func BenchmarkView(b *testing.B) {
	m := open(b, sparseAPR2(b, modelTensors(2000, GB)))
	t := firstTensor(b, m)
	b.Run("call=Bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := t.Bytes(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("call=View", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := loader.View[float32](t); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("call=Float32s", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := t.Float32s(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("call=Acquire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lease, err := m.Acquire()
			if err != nil {
				b.Fatal(err)
			}
			lease.Release()
		}
	})
}

func firstTensor(b testing.TB, m *loader.Model) loader.Tensor {
	b.Helper()
	for t := range m.Tensors() {
		return t
	}
	b.Fatal("a model without tensors")
	return loader.Tensor{}
}

// fullAPR2 is an APR2 file of one F32 tensor with elements values, on disk and in the
// page cache.
func fullAPR2(b testing.TB, elements uint64) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "full.apr")
	desc := []layout.Tensor{{Name: []byte("w"), DType: layout.F32, Shape: []int{int(elements)}}}
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w, err := apr2.NewWriter(f, slices.Values(desc), nil)
	if err != nil {
		b.Fatal(err)
	}
	values := make([]float32, elements)
	for i := range values[:min(elements, 1<<20)] {
		values[i] = float32(rand.NormFloat64() / 50)
	}
	for n := 1 << 20; n < len(values); n *= 2 {
		copy(values[n:], values[:n])
	}
	if err := w.WriteTensor(mmapio.Bytes(values)); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkVerify checks a whole file: with one worker, with all cores, and for comparison
// the same bytes merely summed.
func BenchmarkVerify(b *testing.B) {
	const size = 256 << 20
	path := fullAPR2(b, size/4)
	m := open(b, path)
	for _, workers := range []int{1, 2, 0} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				report, err := m.Verify(context.Background(), &loader.VerifyOptions{Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				if err := report.Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("sum", func(b *testing.B) {
		words, err := loader.View[uint32](firstTensor(b, m))
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(size)
		for b.Loop() {
			sink32 = sum(words)
		}
	})
	b.Run("read", func(b *testing.B) {
		buf := make([]byte, 1<<20)
		b.SetBytes(size)
		for b.Loop() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
}

// BenchmarkTouch sums every element of a tensor: of a view of the mapped file, and of a
// slice on the heap. Opening and mapping are outside the loop, page faults of the first
// round are amortised.
func BenchmarkTouch(b *testing.B) {
	const elements = 64 << 20
	m := open(b, fullAPR2(b, elements))
	view, err := firstTensor(b, m).Float32s()
	if err != nil {
		b.Fatal(err)
	}
	heap := append([]float32(nil), view...)
	for _, s := range []struct {
		name   string
		values []float32
	}{{"slice", heap}, {"view", view}} {
		b.Run("of="+s.name, func(b *testing.B) {
			b.SetBytes(4 * elements)
			b.ReportAllocs()
			for b.Loop() {
				sinkF = sum(s.values)
			}
		})
	}
	b.Run("of=fresh-view", func(b *testing.B) {
		path := m.Files()[0].Path
		b.SetBytes(4 * elements)
		for b.Loop() {
			m, err := loader.Open(path, nil)
			if err != nil {
				b.Fatal(err)
			}
			view, err := firstTensor(b, m).Float32s()
			if err != nil {
				b.Fatal(err)
			}
			sinkF = sum(view)
			m.Close()
		}
	})
}

var (
	sinkF  float32
	sink32 uint32
)

// sum adds with four accumulators, so that the loop waits for memory, not for additions.
func sum[T uint32 | float32](v []T) T {
	var s0, s1, s2, s3 T
	for ; len(v) >= 4; v = v[4:] {
		s0 += v[0]
		s1 += v[1]
		s2 += v[2]
		s3 += v[3]
	}
	for _, x := range v {
		s0 += x
	}
	return s0 + s1 + s2 + s3
}
