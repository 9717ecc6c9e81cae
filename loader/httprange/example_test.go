//go:build !wasip1

package httprange_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
)

// Open reads a model on a web server by ranges: its index, then the tensors that are used.
func Example() {
	server := httptest.NewServer(http.FileServer(http.Dir("../../testdata/safetensors")))
	defer server.Close()
	r, err := httprange.Open(context.Background(), server.URL+"/minilm-slice.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	m, err := loader.OpenReaderAt(context.Background(), r, r.Size(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	bias, err := m.Tensor("embeddings.LayerNorm.bias")
	if err != nil {
		log.Fatal(err)
	}
	values, err := bias.Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bias.Shape(), values[:3])
	// Output: [384] [0.16954054 0.11112433 0.0064446456]
}

// Get downloads a small document, such as the answer of an API. A longer one than the limit is ErrResponse.
func ExampleGet() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"sha": "c0ffee"}`)
	}))
	defer server.Close()
	const limit = 1 << 10
	body, _, err := httprange.Get(context.Background(), server.URL+"/api/revision/main", limit, nil)
	fmt.Printf("%s %v\n", body, err)
	// Output: {"sha": "c0ffee"} <nil>
}
