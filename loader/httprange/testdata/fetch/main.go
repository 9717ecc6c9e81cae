// Fetch prints one tensor of the model at an address, to whose server it sends a key. Built for
// GOOS=js it reads by way of the browser's fetch, and of the file no more than the index and the
// tensor.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
)

func main() {
	header := make(http.Header)
	for _, key := range os.Args[3:] {
		header.Add("X-Api-Key", key)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], header); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, name string, header http.Header) error {
	r, err := httprange.Open(ctx, address, &httprange.Options{PrefixBytes: 4 << 10, Header: header})
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := loader.OpenReaderAt(ctx, r, r.Size(), nil)
	if err != nil {
		return err
	}
	defer m.Close()
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	values, err := t.Float32s()
	if err != nil {
		return err
	}
	fmt.Println(t.DType(), t.Shape(), values[:3])
	return nil
}
