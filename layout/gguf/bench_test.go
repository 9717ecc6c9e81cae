package gguf

import (
	"fmt"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// BenchmarkDecode reads headers: of tensors alone, and with strings of a vocabulary, of
// which one is as long as a chat template.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ tensors, tokens int }{{100, 0}, {2000, 0}, {2000, 100_000}} {
		b.Run(fmt.Sprintf("tensors=%d/tokens=%d", c.tensors, c.tokens), func(b *testing.B) {
			in := header(c.tensors, c.tokens)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(in, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// header is a file whose tensors are empty.
func header(tensors, tokens int) layout.Bytes {
	var a assembler
	a.header(uint64(tensors), 2)
	words := make([]string, tokens)
	for i := range words {
		words[i] = "tokenization"[:1+i%12]
	}
	a.strings("tokenizer.ggml.tokens", words...)
	a.key("tokenizer.chat_template", TypeString)
	a.text(string(make([]byte, 6000)))
	for i := range tensors {
		a.tensor(fmt.Sprintf("blk.%d.attn_output.weight", i), 2, 0, 4096, 0)
	}
	return a.data(0)
}
