//go:build !wasip1

package remote_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/remote"
)

// Open reads a model at an address. hf://org/name and oci://host/repository serve as well as this server on loopback.
func ExampleOpen() {
	server := httptest.NewServer(http.FileServer(http.Dir("../testdata/safetensors")))
	defer server.Close()
	m, err := remote.Open(context.Background(), server.URL+"/minilm-slice.safetensors", &remote.Options{NoCache: true})
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

// Pull downloads a model to the cache. Opened by its address afterwards, it is a file of this machine.
func ExamplePull() {
	dir, err := os.MkdirTemp("", "pull")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server := httptest.NewServer(http.FileServer(http.Dir("../testdata/safetensors")))
	defer server.Close()
	pulled, err := remote.Pull(context.Background(), server.URL+"/minilm-slice.safetensors", &remote.Options{CacheDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	info, err := os.Stat(pulled.Path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pulled.Names, filepath.Base(pulled.Path), info.Mode().IsRegular())
	// Output: [minilm-slice.safetensors] minilm-slice.safetensors true
}
