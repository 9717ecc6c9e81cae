// Package bert computes sentence vectors with BERTs such as all-MiniLM-L6-v2, from weights as they are stored:
// SafeTensors, or GGUF quantized by tensormap convert. The weights are mapped, and loader.Tensor.MatMul multiplies
// by them without expanding them. Tokens, attention and norms, which the loader does not do, are here in plain Go.
package bert

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/bind"
)

// weights are BERT's tensors under the names of transformers and the names of llama.cpp.
type weights struct {
	Words     loader.Tensor `tensor:"embeddings.word_embeddings.weight|bert.embeddings.word_embeddings.weight|token_embd.weight" shape:"vocab,hidden"`
	Positions loader.Tensor `tensor:"embeddings.position_embeddings.weight|bert.embeddings.position_embeddings.weight|position_embd.weight" shape:"positions,hidden"`
	Types     loader.Tensor `tensor:"embeddings.token_type_embeddings.weight|bert.embeddings.token_type_embeddings.weight|token_types.weight" shape:"_,hidden"`
	Norm      layerNorm     `tensor:"embeddings.LayerNorm.|bert.embeddings.LayerNorm.|token_embd_norm."`
	Layers    []layer       `tensor:"encoder.layer.%d.|bert.encoder.layer.%d.|blk.%d."`
}

type layer struct {
	Query  linear    `tensor:"attention.self.query.|attn_q."`
	Key    linear    `tensor:"attention.self.key.|attn_k."`
	Value  linear    `tensor:"attention.self.value.|attn_v."`
	Output linear    `tensor:"attention.output.dense.|attn_output."`
	Norm   layerNorm `tensor:"attention.output.LayerNorm.|attn_output_norm."`
	Up     linear    `tensor:"intermediate.dense.|ffn_up."`
	Down   linear    `tensor:"output.dense.|ffn_down."`
	Last   layerNorm `tensor:"output.LayerNorm.|layer_output_norm."`
}

type layerNorm struct {
	Weight []float32 `tensor:"weight" shape:"hidden"`
	Bias   []float32 `tensor:"bias" shape:"hidden"`
}

// linear is a matrix with a bias. Its rows are multiplied as they are stored.
type linear struct {
	Weight loader.Tensor `tensor:"weight" shape:"_,_"`
	Bias   []float32     `tensor:"bias" shape:"_"`
}

// Model is a BERT whose weights stay where the loader has them.
type Model struct {
	weights
	*Tokenizer
	pooling                             Pooling
	hidden, heads, positions, maxTokens int
	epsilon                             float32
}

// Options say what a model's files may leave out. The zero value takes everything from the files.
type Options struct {
	Vocabulary string  // path of a vocab.txt; "" for the vocabulary beside or in the model
	Pooling    Pooling // "" for what the files say
}

// New binds the tensors of m and checks that their shapes belong together. The Model works as long as m is open or a
// lease of m is held. The error names what the files lack, or say that differs from what this package computes: another
// architecture, activation, tokenizer or pooling.
func New(ctx context.Context, m *loader.Model, opts Options) (*Model, error) {
	b := &Model{}
	c, err := m.Config(ctx)
	if err != nil {
		return nil, err
	}
	for _, is := range []struct{ name, want, absent string }{
		{"model_type", "bert", ""}, {"hidden_act", "gelu", "gelu"}, {"position_embedding_type", "absolute", "absolute"}} {
		if v, _ := c.String(is.name); cmp.Or(v, is.absent) != is.want {
			return nil, fmt.Errorf("%s: %s is %q, only %q is computed here", m.Path(), is.name, v, is.want)
		}
	}
	dims := bind.Dims{}
	if err := bind.Struct(&b.weights, m, dims); err != nil {
		return nil, err
	}
	b.hidden, b.positions = dims["hidden"], dims["positions"]
	if b.heads, err = c.Int("num_attention_heads"); err != nil {
		return nil, err
	}
	if b.heads < 1 || b.hidden%b.heads != 0 {
		return nil, fmt.Errorf("%s: %d heads do not divide %d dimensions", m.Path(), b.heads, b.hidden)
	}
	epsilon, err := c.Float("layer_norm_eps")
	if err != nil {
		return nil, err
	}
	b.epsilon = float32(epsilon)
	if err := b.checkShapes(m.Path()); err != nil {
		return nil, err
	}
	if b.Tokenizer, err = readTokenizer(ctx, m, opts.Vocabulary); err != nil {
		return nil, err
	}
	b.pooling, b.maxTokens, err = readPooling(ctx, m, c, opts.Pooling)
	if b.maxTokens == 0 || b.maxTokens > b.positions {
		b.maxTokens = b.positions
	}
	return b, err
}

// MaxTokens returns the most tokens that the model was trained with: max_seq_length of sentence-transformers, or else
// the number of its positions.
func (b *Model) MaxTokens() int { return b.maxTokens }

// Dimensions returns the length of a vector.
func (b *Model) Dimensions() int { return b.hidden }

// checkShapes compares the shapes of the matrices of all layers with the number of dimensions. The error names the model
// at path and the first tensor that does not fit.
func (b *Model) checkShapes(path string) error {
	for i := range b.Layers {
		l := &b.Layers[i]
		inner := len(l.Up.Bias)
		for _, x := range []struct {
			of            *linear
			rows, columns int
		}{{&l.Query, b.hidden, b.hidden}, {&l.Key, b.hidden, b.hidden}, {&l.Value, b.hidden, b.hidden},
			{&l.Output, b.hidden, b.hidden}, {&l.Up, inner, b.hidden}, {&l.Down, b.hidden, inner}} {
			if s := x.of.Weight.Shape(); s[0] != x.rows || s[1] != x.columns || len(x.of.Bias) != x.rows {
				return fmt.Errorf("%s: tensor %q has shape %v, not [%d %d]", path, x.of.Weight.Name(), s, x.rows, x.columns)
			}
		}
	}
	return nil
}

// apply returns the products with n vectors, one after the other, plus the bias.
func (w *linear) apply(ctx context.Context, xs []float32, n int) ([]float32, error) {
	rows := len(w.Bias)
	dst := make([]float32, n*rows)
	if err := w.Weight.MatMul(ctx, dst, xs, n); err != nil {
		return nil, err
	}
	for i := range n {
		for j, bias := range w.Bias {
			dst[i*rows+j] += bias
		}
	}
	return dst, nil
}

// onAllCores divides the numbers below n among the cores, and calls f for each range from lo to hi-1.
func onAllCores(n int, f func(lo, hi int)) {
	var work sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for core := range cores {
		work.Go(func() { f(core*n/cores, (core+1)*n/cores) })
	}
	work.Wait()
}
