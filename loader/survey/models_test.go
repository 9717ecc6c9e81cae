package survey_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

func isUnsupported(err error) bool { return errors.Is(err, loader.ErrUnsupported) }

// all returns what run hands over.
func all[R any](run func(each func(*R) error) error) (list []R, err error) {
	err = run(func(r *R) error {
		list = append(list, *r)
		return nil
	})
	return list, err
}

func allStats(ctx context.Context, m *loader.Model, opts *survey.StatsOptions) ([]survey.TensorStats, error) {
	return all(func(each func(*survey.TensorStats) error) error { return survey.Stats(ctx, m, opts, each) })
}

func allDigests(ctx context.Context, m *loader.Model, opts *survey.HashOptions) ([]survey.TensorDigest, error) {
	return all(func(each func(*survey.TensorDigest) error) error { return survey.Hash(ctx, m, opts, each) })
}

func allPairs(ctx context.Context, a, b *loader.Model, opts *survey.Options) ([]survey.Pair, error) {
	return all(func(each func(*survey.Pair) error) error { return survey.Compare(ctx, a, b, opts, each) })
}

func modelDigest(list []survey.TensorDigest) *survey.ModelDigest {
	total := new(survey.ModelDigest)
	for i := range list {
		total.Add(&list[i])
	}
	return total
}

func describe(v any) string { return fmt.Sprintf("%+v", v) }

func floats(name string, v []float32, shape ...int) modeltest.Tensor {
	if shape == nil {
		shape = []int{len(v)}
	}
	return modeltest.Tensor{Name: name, DType: layout.F32, Shape: shape, Data: modeltest.Float32s(v...)}
}

// compressed is an APR2 file of tensors in LZ4 blocks.
func compressed(t testing.TB, tensors ...modeltest.Tensor) []byte {
	t.Helper()
	var descs []layout.Tensor
	for _, x := range tensors {
		descs = append(descs, layout.Tensor{Name: []byte(x.Name), DType: x.DType, Shape: x.Shape, Encoding: layout.LZ4})
	}
	path := filepath.Join(t.TempDir(), "lz4.apr")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := apr2.NewWriter(f, slices.Values(descs), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors {
		err := w.WriteBlocksFunc(func(dst io.Writer) error {
			c := lz4block.NewWriter(dst, lz4block.Fast)
			_, err := c.Write(x.Data)
			return errors.Join(err, c.Close())
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// largeElements are more than two batches, and no round number.
const largeElements = 2<<20 + 65536 + 4096 + 77

func largeValues() []float32 {
	rng := rand.New(rand.NewPCG(3, 4))
	v := make([]float32, largeElements)
	for i := range v {
		v[i] = float32(rng.NormFloat64()*0.02 + 100)
	}
	v[1<<20] = float32(math.Inf(1))
	v[1<<20+1] = float32(math.NaN())
	return v
}

func largeModel(t testing.TB) *loader.Model {
	return openBytes(t, modeltest.SafeTensors(floats("large", largeValues())))
}

// changed is largeModel with a value in every thousand changed.
func changed(t testing.TB) []byte {
	v := largeValues()
	for i := 0; i < len(v); i += 1000 {
		v[i]++
	}
	return modeltest.SafeTensors(floats("large", v))
}
