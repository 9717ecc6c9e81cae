package bert

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/tensormap/tensormap/mmapio"
)

// Embed returns the sentence vector of tokens, of length 1: the pooled outputs of the last layer. The error is the error of
// reading weights, of ctx, or of a number of tokens that the model has no positions for. A file that was truncated
// meanwhile is mmapio.ErrFault.
func (b *Model) Embed(ctx context.Context, tokens []int) (v []float32, err error) {
	err = mmapio.Guard(func() error { // biases and norms are views of the file
		v, err = b.embed(ctx, tokens)
		return err
	})
	return v, err
}

// embed does what Embed does, except that a fault of the mapping is a panic.
func (b *Model) embed(ctx context.Context, tokens []int) ([]float32, error) {
	if n := len(tokens); n == 0 || n > b.positions {
		return nil, fmt.Errorf("%d tokens, but the model takes 1 to %d", n, b.positions)
	}
	x, err := b.embeddings(tokens)
	if err != nil {
		return nil, err
	}
	for i := range b.Layers {
		if x, err = b.Layers[i].forward(ctx, x, len(tokens), b); err != nil {
			return nil, err
		}
	}
	v := x[:b.hidden] // of [CLS]
	if b.pooling == Mean {
		v = make([]float32, b.hidden)
		for i, y := range x {
			v[i%b.hidden] += y / float32(len(tokens))
		}
	}
	var squares float64
	for _, y := range v {
		squares += float64(y) * float64(y)
	}
	for i := range v {
		v[i] /= float32(max(math.Sqrt(squares), 1e-12))
	}
	return v, nil
}

// embeddings adds the vectors of the tokens, of their places and of the first sentence. It reads no other rows.
func (b *Model) embeddings(tokens []int) ([]float32, error) {
	h := b.hidden
	x := make([]float32, len(tokens)*h)
	place, kind := make([]float32, len(x)), make([]float32, h)
	if err := b.Positions.DequantizeRows(place, 0, uint64(len(tokens))); err != nil {
		return nil, err
	}
	if err := b.Types.DequantizeRows(kind, 0, 1); err != nil {
		return nil, err
	}
	for i, id := range tokens {
		row := x[i*h : (i+1)*h]
		if err := b.Words.DequantizeRows(row, uint64(id), 1); err != nil {
			return nil, err
		}
		for j := range row {
			row[j] += place[i*h+j] + kind[j]
		}
	}
	b.Norm.apply(x, b.epsilon)
	return x, nil
}

// forward returns the outputs of the layer for n vectors, one after the other in x.
func (l *layer) forward(ctx context.Context, x []float32, n int, b *Model) ([]float32, error) {
	var qkv [3][]float32
	for i, w := range []*linear{&l.Query, &l.Key, &l.Value} {
		var err error
		if qkv[i], err = w.apply(ctx, x, n); err != nil {
			return nil, err
		}
	}
	attended, err := l.Output.apply(ctx, attention(qkv[0], qkv[1], qkv[2], n, b.heads), n)
	if err != nil {
		return nil, err
	}
	add(attended, x)
	l.Norm.apply(attended, b.epsilon)
	inner, err := l.Up.apply(ctx, attended, n)
	if err != nil {
		return nil, err
	}
	onAllCores(len(inner), func(lo, hi int) {
		for i, v := range inner[lo:hi] {
			inner[lo+i] = gelu(v)
		}
	})
	out, err := l.Down.apply(ctx, inner, n)
	if err != nil {
		return nil, err
	}
	add(out, attended)
	l.Last.apply(out, b.epsilon)
	return out, nil
}

// attention mixes the values of n tokens, for each head by the softmax of scaled products of queries and keys.
func attention(query, key, value []float32, n, heads int) []float32 {
	hidden := len(query) / n
	size := hidden / heads
	out := make([]float32, len(query))
	scale := float32(1 / math.Sqrt(float64(size)))
	onAllCores(heads, func(lo, hi int) {
		scores := make([]float32, n)
		for at := lo * size; at < hi*size; at += size {
			for i := range n {
				q := query[i*hidden+at:][:size]
				for j := range n {
					scores[j] = scale * product(q, key[j*hidden+at:][:size])
				}
				softmax(scores)
				to := out[i*hidden+at:][:size]
				for j, s := range scores {
					for c, v := range value[j*hidden+at:][:size] {
						to[c] += s * v
					}
				}
			}
		}
	})
	return out
}

// product returns the sum of the products of elements. b is at least as long as a.
func product(a, b []float32) (sum float32) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// softmax replaces numbers by their exponentials, scaled so that the sum is 1.
func softmax(x []float32) {
	highest := slices.Max(x)
	var sum float32
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - highest)))
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// gelu returns the Gaussian error linear unit of x.
func gelu(x float32) float32 { return x * float32(0.5*(1+math.Erf(float64(x)/math.Sqrt2))) }

// add adds x to the vector to.
func add(to, x []float32) {
	for i, v := range x {
		to[i] += v
	}
}

// apply normalizes vectors in place.
func (n *layerNorm) apply(x []float32, epsilon float32) {
	for h := len(n.Weight); len(x) > 0; x = x[h:] {
		var mean, variance float64
		for _, v := range x[:h] {
			mean += float64(v) / float64(h)
		}
		for _, v := range x[:h] {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(h)
		}
		scale := 1 / math.Sqrt(variance+float64(epsilon))
		for i, v := range x[:h] {
			x[i] = float32((float64(v)-mean)*scale)*n.Weight[i] + n.Bias[i]
		}
	}
}
