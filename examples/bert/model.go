package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/bind"
)

// weights are BERT's tensors under the names of transformers and those of llama.cpp.
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
	hidden, heads, positions int
	epsilon                  float32
}

// NewModel binds m's tensors, and checks that their shapes belong together. The Model lives as long as m is open.
func NewModel(ctx context.Context, m *loader.Model) (*Model, error) {
	b := &Model{heads: 12, epsilon: 1e-12}
	dims := bind.Dims{}
	if err := bind.Struct(&b.weights, m, dims); err != nil {
		return nil, err
	}
	b.hidden, b.positions = dims["hidden"], dims["positions"]
	c, err := m.Config(ctx)
	if err != nil {
		return nil, err
	}
	if n, err := c.Int("num_attention_heads"); err == nil {
		b.heads = n
	}
	if eps, err := c.Float("layer_norm_eps"); err == nil {
		b.epsilon = float32(eps)
	}
	if b.heads < 1 || b.hidden%b.heads != 0 {
		return nil, fmt.Errorf("%s: %d heads do not divide %d dimensions", m.Path(), b.heads, b.hidden)
	}
	for i := range b.Layers {
		l := &b.Layers[i]
		inner := len(l.Up.Bias)
		for _, x := range []struct {
			of            *linear
			rows, columns int
		}{{&l.Query, b.hidden, b.hidden}, {&l.Key, b.hidden, b.hidden}, {&l.Value, b.hidden, b.hidden},
			{&l.Output, b.hidden, b.hidden}, {&l.Up, inner, b.hidden}, {&l.Down, b.hidden, inner}} {
			if s := x.of.Weight.Shape(); s[0] != x.rows || s[1] != x.columns || len(x.of.Bias) != x.rows {
				return nil, fmt.Errorf("%s: tensor %q has shape %v, not [%d %d]", m.Path(), x.of.Weight.Name(), s, x.rows, x.columns)
			}
		}
	}
	return b, nil
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
