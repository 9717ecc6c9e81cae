package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/bind"
	"github.com/tensormap/tensormap/mmapio"
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

// linear is a matrix with a bias. Its rows are multiplied as they are stored, or expanded if values is set.
type linear struct {
	Weight loader.Tensor `tensor:"weight" shape:"_,_"`
	Bias   []float32     `tensor:"bias" shape:"_"`
	values []float32
}

func (l *layer) matrices() []*linear {
	return []*linear{&l.Query, &l.Key, &l.Value, &l.Output, &l.Up, &l.Down}
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

// Expand makes the model multiply by weights that are expanded to float32 once, for comparison.
func (b *Model) Expand() error {
	for i := range b.Layers {
		for _, w := range b.Layers[i].matrices() {
			var err error
			if w.values, err = w.Weight.Float32s(); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply returns the products with n vectors, one after the other, plus the bias.
func (w *linear) apply(ctx context.Context, xs []float32, n int) ([]float32, error) {
	rows := len(w.Bias)
	dst := make([]float32, n*rows)
	multiply := func() error { return w.Weight.MatMul(ctx, dst, xs, n) }
	if w.values != nil {
		multiply = func() error { return multiplyExpanded(dst, w.values, xs, n) }
	}
	if err := multiply(); err != nil {
		return nil, err
	}
	for i := range n {
		for j, bias := range w.Bias {
			dst[i*rows+j] += bias
		}
	}
	return dst, nil
}

// multiplyExpanded multiplies float32s in memory by n vectors, on all cores, with the loader's own kernels.
func multiplyExpanded(dst, values, xs []float32, n int) error {
	rows, columns := len(dst)/n, len(xs)/n
	as := make([]*dot.Activation, n)
	for i := range as {
		var err error
		if as[i], err = dot.Prepare(layout.F32, xs[i*columns:][:columns]); err != nil {
			return err
		}
	}
	errs := make([]error, runtime.GOMAXPROCS(0))
	onAllCores(rows, func(core, lo, hi int) {
		out := make([][]float32, n)
		for i := range out {
			out[i] = dst[i*rows+lo : i*rows+hi]
		}
		errs[core] = dot.Mat(out, layout.F32, mmapio.Bytes(values[lo*columns:hi*columns]), as)
	})
	return errors.Join(errs...)
}

// onAllCores divides the numbers below n among the cores.
func onAllCores(n int, f func(core, lo, hi int)) {
	var work sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for core := range cores {
		work.Go(func() { f(core, core*n/cores, (core+1)*n/cores) })
	}
	work.Wait()
}
