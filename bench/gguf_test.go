package bench

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/bench/internal/llama3"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
	"github.com/tensormap/tensormap/mmapio"
)

// BenchmarkOpenGGUF opens and closes a GGUF file, without a vocabulary and with one.
func BenchmarkOpenGGUF(b *testing.B) {
	for _, o := range []llama3.Outline{{Tensors: 100}, {Tensors: 2000}, llama3.Full} {
		b.Run(fmt.Sprintf("tensors=%d/tokens=%d", o.Tensors, o.Tokens), func(b *testing.B) {
			benchmarkOpen(b, writeGGUF(b, o))
		})
	}
}

// BenchmarkMetadataGGUF asks an open file for what opening has passed over: a number, the
// tokens one after another, and everything.
func BenchmarkMetadataGGUF(b *testing.B) {
	in, err := mmapio.Map(writeGGUF(b, llama3.Full))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close() })
	f, err := gguf.Decode(in, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("call=Get/key=number", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			get(b, f, in, "llama.context_length")
		}
	})
	b.Run("call=Get/key=tokens", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, token := range get(b, f, in, "tokenizer.ggml.tokens").([]string) {
				n += len(token)
			}
			if n < llama3.Full.Tokens {
				b.Fatal(n)
			}
		}
	})
	b.Run("call=Metadata", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := f.Metadata(in); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func get(b *testing.B, f *gguf.File, in layout.Input, key string) any {
	v, ok, err := f.Get(in, key)
	if !ok {
		b.Fatal(key, err)
	}
	return v
}

func writeGGUF(b testing.TB, o llama3.Outline) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "model.gguf")
	if err := o.WriteFile(path); err != nil {
		b.Fatal(err)
	}
	return path
}
