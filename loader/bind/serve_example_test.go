package bind_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/bind"
	"github.com/tensormap/tensormap/mmapio"
)

// README has the following up to Example_server.

// weights are bound once per model, their shapes checked.
type weights struct {
	Words loader.Tensor `tensor:"embeddings.word_embeddings.weight" shape:"vocab,hidden"`
	Bias  []float32     `tensor:"embeddings.LayerNorm.bias" shape:"hidden"`
}

type server struct{ current loader.Current[*weights] } // swap comes before the first request

// swap makes the model at path the one that new requests get.
func (s *server) swap(path string) error {
	m, err := loader.Open(path, nil)
	if err != nil {
		return err
	}
	var w weights
	if err := bind.Struct(&w, m, nil); err != nil {
		m.Close()
		return err // every tensor that is missing or has another shape
	}
	return s.current.Swap(m, &w) // does not wait: requests under way finish on the model before
}

// embed adds the bias to the embedding of a token, in row.
func (s *server) embed(ctx context.Context, token uint64, row []float32) error {
	w, lease, err := s.current.Acquire(ctx) // the weights stay until the release
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := w.Words.DequantizeRows(row, token, 1); err != nil {
		return err
	}
	return mmapio.Guard(func() error { // a loop of your own over a view
		for i, b := range w.Bias {
			row[i] += b
		}
		return nil
	})
}

const example = "../../testdata/safetensors/minilm-slice.safetensors"

// Example_server swaps a model while a request has a lease of it.
func Example_server() {
	var s server
	if err := s.swap(example); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	old, lease, err := s.current.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.swap(example); err != nil {
		log.Fatal(err)
	}
	row := make([]float32, len(old.Bias))
	err = old.Words.DequantizeRows(row, 1, 1) // still works
	fmt.Println(err, s.current.Stats().Draining)
	lease.Release()
	fmt.Println(s.embed(ctx, 1, row), s.current.Stats().Draining)
	// Output:
	// <nil> 1
	// <nil> 0
}

// TestREADME holds the server in README to the one above.
func TestREADME(t *testing.T) {
	code, err := os.ReadFile("serve_example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, server, _ := strings.Cut(string(code), "up to Example_server.\n\n")
	server, _, ok := strings.Cut(server, "const example")
	if !ok || !strings.Contains(string(readme), "```go\n"+strings.TrimSpace(server)+"\n```\n") {
		t.Error("README has another server")
	}
}
