package bind_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"sync/atomic"
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

type served struct {
	model *loader.Model
	weights
}

type server struct{ current atomic.Pointer[served] } // swap comes before the first request

// swap makes the model at path the one that new requests get.
func (s *server) swap(path string) error {
	m, err := loader.Open(path, nil)
	if err != nil {
		return err
	}
	next := &served{model: m}
	if err := bind.Struct(&next.weights, m, nil); err != nil {
		m.Close()
		return err // every tensor that is missing or has another shape
	}
	if old := s.current.Swap(next); old != nil {
		old.model.Close() // does not wait: requests under way finish on it
	}
	return nil
}

// acquire takes a lease of the current model: its weights stay until the release.
func (s *server) acquire() (*served, *loader.Lease, error) {
	for {
		m := s.current.Load()
		lease, err := m.model.Acquire()
		if err == nil || s.current.Load() == m {
			return m, lease, err
		}
		// m was swapped out and closed in between: take its successor.
	}
}

// embed adds the bias to the embedding of a token, in row.
func (s *server) embed(token uint64, row []float32) error {
	m, lease, err := s.acquire()
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := lease.Of(m.Words).DequantizeRows(row, token, 1); err != nil {
		return err
	}
	return mmapio.Guard(func() error { // a loop of your own over a view
		for i, b := range m.Bias {
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
	old, lease, err := s.acquire()
	if err != nil {
		log.Fatal(err)
	}
	if err := s.swap(example); err != nil {
		log.Fatal(err)
	}
	row := make([]float32, len(old.Bias))
	err = lease.Of(old.Words).DequantizeRows(row, 1, 1) // still works
	fmt.Println(err, old.model.Stats().Leases)
	lease.Release()
	<-old.model.Done()
	fmt.Println(s.embed(1, row), old.model.Stats().MappedBytes)
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
