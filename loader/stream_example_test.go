package loader_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Weights go to a device by way of two buffers. copy stands for the device's own function.
func ExampleModel_Stream() {
	m, err := loader.Open("testdata/rounded.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	device := make(map[string][]byte)
	opts := &loader.StreamOptions{Buffers: [][]byte{make([]byte, 1<<20), make([]byte, 1<<20)}, As: layout.BF16}
	_, err = m.Stream(context.Background(), []string{"x"}, opts, func(p loader.Piece) error {
		name := p.Tensor.Name()
		if p.Offset == 0 {
			device[name] = make([]byte, p.Size)
		}
		copy(device[name][p.Offset:], p.Bytes)
		return nil
	})
	fmt.Println(len(device["x"]) > 0, err)
	// Output: true <nil>
}
