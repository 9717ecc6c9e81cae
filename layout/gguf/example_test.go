package gguf_test

import (
	"fmt"
	"log"
	"os"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
)

func ExampleDecode() {
	b, err := os.ReadFile("../../testdata/gguf/llama.gguf")
	if err != nil {
		log.Fatal(err)
	}
	f, err := gguf.Decode(layout.Bytes(b), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range f.Index().Tensors {
		fmt.Println(string(t.Name), t.DType, t.Shape)
	}
	// Output:
	// token_embd.weight Q8_0 [6 32]
	// blk.0.attn_norm.weight F32 [32]
	// blk.0.attn_q.weight Q8_0 [32 32]
	// blk.1.attn_norm.weight F32 [32]
	// blk.1.attn_q.weight Q8_0 [32 32]
	// output_norm.weight F32 [32]
}

// One value is read without the others: of a vocabulary, token by token.
func ExampleFile_Get() {
	b, err := os.ReadFile("../../testdata/gguf/llama.gguf")
	if err != nil {
		log.Fatal(err)
	}
	in := layout.Bytes(b)
	f, err := gguf.Decode(in, nil)
	if err != nil {
		log.Fatal(err)
	}
	tokens, ok, err := f.Get(in, "tokenizer.ggml.tokens")
	if err != nil || !ok {
		log.Fatal(err)
	}
	for id, token := range tokens.([]string) {
		fmt.Println(id, token)
	}
	// Output:
	// 0 <unk>
	// 1 <s>
	// 2 </s>
	// 3 ▁the
	// 4 ▁of
	// 5 <0x0A>
}
