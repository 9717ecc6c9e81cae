package survey_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

const example = "../../testdata/safetensors/minilm-slice.safetensors"

// Stats finds range, mean and oddities of every tensor.
func ExampleStats() {
	m, err := loader.Open(example, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	err = survey.Stats(context.Background(), m, nil, func(s *survey.TensorStats) error {
		if s.Err != nil {
			return s.Err
		}
		fmt.Printf("%s: %.3f to %.3f, mean %.4f, %d NaN\n", s.Tensor.Name(), s.Min, s.Max, s.Mean, s.NaN)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// embeddings.position_ids: 0.000 to 511.000, mean 255.5000, 0 NaN
	// embeddings.LayerNorm.bias: -1.090 to 0.769, mean 0.0109, 0 NaN
	// embeddings.LayerNorm.weight: 0.145 to 0.917, mean 0.6168, 0 NaN
	// embeddings.token_type_embeddings.weight: -0.100 to 0.363, mean 0.0006, 0 NaN
	// embeddings.word_embeddings.weight: -0.436 to 0.521, mean 0.0001, 0 NaN
	// encoder.layer.0.attention.output.dense.bias: -0.245 to 0.194, mean -0.0006, 0 NaN
}

// Hash gives one digest for the values of a model, whatever its format.
func ExampleHash() {
	m, err := loader.Open(example, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	var all survey.ModelDigest
	err = survey.Hash(context.Background(), m, nil, func(d *survey.TensorDigest) error {
		all.Add(d)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(all.Values())
	// Output:
	// e5c27f5509813fd302a07146b86343b654f246e3cd8370add44f2bf3d921e5f4 true
}

// Compare says how far a model is from another, such as a quantized one from its original.
func ExampleCompare() {
	m, err := loader.Open(example, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "q8_0.gguf")
	if _, err := convert.Write(context.Background(), m, path, &convert.Options{DType: layout.Q8_0}); err != nil {
		log.Fatal(err)
	}
	quantized, err := loader.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer quantized.Close()
	err = survey.Compare(context.Background(), m, quantized, nil, func(p *survey.Pair) error {
		if p.Err == nil && p.Compared && p.Differing > 0 {
			fmt.Printf("%s: %v, %.0f dB\n", p.Name, p.B.DType(), p.Errors.DB())
		}
		return p.Err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// embeddings.word_embeddings.weight: Q8_0, 44 dB
}
