// Package llama3 makes GGUF files with the outlines of a Llama 3 model. Its vocabulary is most of
// the bytes before the tensors.
package llama3

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
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
	head, data := o.head()
	if err := os.WriteFile(path, head, 0o666); err != nil {
		return err
	}
	return os.Truncate(path, int64(len(head))+data)
}

// Numbers of GGUF: types of metadata values, and of tensors.
const (
	typeUint32, typeInt32, typeFloat32, typeString, typeArray = 4, 5, 6, 8, 9
	typeQ4_0                                                  = 2
)

const (
	rows, cols = 16, 4096 // of every tensor
	size       = rows * cols / 32 * 18
	align      = 32
)

// head returns everything that lies before the data, and the size of the data in bytes.
func (o Outline) head() (head []byte, data int64) {
	w := writer("GGUF\x03\x00\x00\x00")
	w.u64(uint64(o.Tensors))
	if o.Tokens == 0 {
		w.u64(4)
	} else {
		w.u64(9)
	}
	w.text("general.architecture", "llama")
	w.text("general.name", "Meta Llama 3")
	w.number("llama.block_count", uint32(o.Tensors/len(parts)))
	w.number("llama.context_length", 8192)
	if o.Tokens > 0 {
		w.tokenizer(o)
	}
	for i := range o.Tensors {
		w.str(fmt.Sprintf("blk.%d.%s.weight", i/len(parts), parts[i%len(parts)]))
		w.u32(2)
		w.u64(cols)
		w.u64(rows)
		w.u32(typeQ4_0)
		w.u64(uint64(i) * size)
	}
	for len(w)%align != 0 {
		w = append(w, 0)
	}
	return w, int64(o.Tensors) * size
}

var parts = []string{
	"attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_gate", "ffn_up", "ffn_down", "ffn_norm",
}

type writer []byte

// tokenizer writes tokens of a few letters, and merges of two of these.
func (w *writer) tokenizer(o Outline) {
	rng := rand.New(rand.NewPCG(3, 8))
	word := func() string {
		s := make([]byte, 1+rng.IntN(6)+rng.IntN(6))
		for i := range s {
			s[i] = 'a' + byte(rng.IntN(26))
		}
		return string(s)
	}
	w.text("tokenizer.ggml.model", "gpt2")
	w.array("tokenizer.ggml.tokens", typeString, o.Tokens)
	for range o.Tokens {
		w.str(word())
	}
	w.array("tokenizer.ggml.scores", typeFloat32, o.Tokens)
	*w = append(*w, make([]byte, 4*o.Tokens)...)
	w.array("tokenizer.ggml.token_type", typeInt32, o.Tokens)
	*w = append(*w, make([]byte, 4*o.Tokens)...)
	w.array("tokenizer.ggml.merges", typeString, o.Merges)
	for range o.Merges {
		w.str(word() + " " + word())
	}
}

func (w *writer) u32(v uint32) { *w = binary.LittleEndian.AppendUint32(*w, v) }

func (w *writer) u64(v uint64) { *w = binary.LittleEndian.AppendUint64(*w, v) }

func (w *writer) str(s string) {
	w.u64(uint64(len(s)))
	*w = append(*w, s...)
}

func (w *writer) number(key string, v uint32) {
	w.str(key)
	w.u32(typeUint32)
	w.u32(v)
}

func (w *writer) text(key, v string) {
	w.str(key)
	w.u32(typeString)
	w.str(v)
}

func (w *writer) array(key string, elem uint32, n int) {
	w.str(key)
	w.u32(typeArray)
	w.u32(elem)
	w.u64(uint64(n))
}
