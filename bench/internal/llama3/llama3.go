// Package llama3 makes GGUF files with the outlines of a Llama 3 model. Its vocabulary is most of
// the bytes before the tensors.
package llama3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
)

// Outline has the numbers of everything in a file.
type Outline struct {
	Tensors int
	// Tokens is the size of the vocabulary, each with a score and a type; none leaves out
	// the tokenizer.
	Tokens int
	// Merges is how many pairs of tokens the tokenizer joins.
	Merges int
}

// Full is a large model with the vocabulary of Llama 3.
var Full = Outline{Tensors: 2000, Tokens: 128_256, Merges: 280_147}

// WriteFile makes a file called path with zeros for weights. They take no space if the file system
// allows holes.
func (o Outline) WriteFile(path string) error {
	var head bytes.Buffer
	w, err := gguf.NewWriter(&head, o.tensors, o.metadata(), nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, head.Bytes(), 0o666); err != nil {
		return err
	}
	return os.Truncate(path, int64(w.Size()))
}

var roles = []string{
	"attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_gate", "ffn_up", "ffn_down", "ffn_norm",
}

// tensors yields o.Tensors tensors with names of Llama 3's layers.
func (o Outline) tensors(yield func(layout.Tensor) bool) {
	for i := range o.Tensors {
		name := fmt.Appendf(nil, "blk.%d.%s.weight", i/len(roles), roles[i%len(roles)])
		if !yield(layout.Tensor{Name: name, DType: layout.Q4_0, Shape: []int{16, 4096}}) {
			return
		}
	}
}

// metadata returns tokens of a few letters, and merges of two words.
func (o Outline) metadata() layout.Metadata {
	md := layout.Metadata{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: "Meta Llama 3"},
		{Key: "llama.block_count", Value: uint32(o.Tensors / len(roles))},
		{Key: "llama.context_length", Value: uint32(8192)},
	}
	if o.Tokens == 0 {
		return md
	}
	rng := rand.New(rand.NewPCG(3, 8))
	word := func() string {
		s := make([]byte, 1+rng.IntN(6)+rng.IntN(6))
		for i := range s {
			s[i] = 'a' + byte(rng.IntN(26))
		}
		return string(s)
	}
	tokens, merges := make([]string, o.Tokens), make([]string, o.Merges)
	for i := range tokens {
		tokens[i] = word()
	}
	for i := range merges {
		merges[i] = word() + " " + word()
	}
	return append(md,
		layout.Entry{Key: "tokenizer.ggml.model", Value: "gpt2"},
		layout.Entry{Key: "tokenizer.ggml.tokens", Value: tokens},
		layout.Entry{Key: "tokenizer.ggml.scores", Value: make([]float32, o.Tokens)},
		layout.Entry{Key: "tokenizer.ggml.token_type", Value: make([]int32, o.Tokens)},
		layout.Entry{Key: "tokenizer.ggml.merges", Value: merges})
}
