package apr2

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// manyTensors is a file of n tensors with the names and shapes of a transformer, without
// the bytes of the tensors.
func manyTensors(t testing.TB, n int) layouttest.Sparse {
	t.Helper()
	tensors := make([]layout.Tensor, n)
	for i := range tensors {
		tensors[i] = tensor(fmt.Sprintf("model.layers.%d.self_attn.q_proj.%d.weight", i/8, i%8), layout.F16, 4096, 128)
	}
	var head bytes.Buffer
	w, err := NewWriter(&head, slices.Values(tensors), nil)
	if err != nil {
		t.Fatal(err)
	}
	return layouttest.Sparse{Head: head.Bytes(), Whole: w.Size()}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		b.Run(fmt.Sprintf("tensors=%d", n), func(b *testing.B) {
			in := manyTensors(b, n)
			b.SetBytes(int64(len(in.Head)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(in, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWriteTensor(b *testing.B) {
	const size = 64 << 20
	data := make([]byte, size)
	for _, from := range []string{"bytes", "reader"} {
		b.Run("from="+from, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				w, err := NewWriter(io.Discard, slices.Values([]layout.Tensor{tensor("a", layout.U8, size)}), nil)
				if err == nil && from == "bytes" {
					err = w.WriteTensor(data)
				} else if err == nil {
					err = writeFrom(w, struct{ io.Reader }{bytes.NewReader(data)})
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
