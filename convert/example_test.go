package convert_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// GGUF to APR2: blocks of quantized numbers stay as they are, and the metadata has its place.
func ExampleWrite() {
	m, err := loader.Open("../testdata/gguf/llama.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.apr")
	if _, err := convert.Write(context.Background(), m, path, nil); err != nil {
		log.Fatal(err)
	}
	out, err := loader.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	md, err := out.Metadata()
	if err != nil {
		log.Fatal(err)
	}
	model, _ := md.Get("model_type")
	fmt.Println(model, out.Len() == m.Len())
	// Output: llama true
}

// SafeTensors has no quantized blocks: they are written as numbers. A plan says so before.
func ExampleNewPlan() {
	m, err := loader.Open("../testdata/gguf/llama.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	plan, err := convert.NewPlan(context.Background(), m, filepath.Join(dir, "model.safetensors"), &convert.Options{DType: layout.F16})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range plan.Tensors {
		if t.To != layout.F16 {
			log.Fatal(t.Name, t.NotReencoded)
		}
	}
	err = plan.Write(context.Background())
	fmt.Println(len(plan.Tensors) == m.Len(), plan.Shards, err)
	// Output: true 0 <nil>
}

// A tensor of numbers that the program has computed.
func ExampleSave() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	err = convert.Save(context.Background(), path, []convert.SaveTensor{
		{Name: "w", DType: layout.F32, Shape: []int{2, 2}, Data: mmapio.Bytes([]float32{1, 2, 3, 4})},
	}, &convert.SaveOptions{Metadata: layout.Metadata{{Key: "format", Value: "pt"}}})
	if err != nil {
		log.Fatal(err)
	}
	m, err := loader.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	w, err := m.Tensor("w")
	if err != nil {
		log.Fatal(err)
	}
	values, err := w.Float32s()
	fmt.Println(w.Shape(), values, err)
	// Output: [2 2] [1 2 3 4] <nil>
}
