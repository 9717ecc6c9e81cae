package apr1_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr1"
)

func ExampleNewWriter() {
	weights := []float32{0.5, -1.27, 0.01}
	var out bytes.Buffer
	w, err := apr1.NewWriter(&out, []layout.Tensor{{
		Name: []byte("encoder.weight"), DType: layout.I8, Shape: []uint64{3, 1},
		Scaled: true, Quant: layout.Quant{Scale: apr1.Scale(weights)},
	}}, &apr1.Options{
		ModelType:  apr1.TinyEn,
		Dimensions: apr1.Dimensions{NVocab: 51864, NMels: 80},
		Vocabulary: &apr1.Vocabulary{Tokens: []string{"<|endoftext|>"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.WriteValues(weights); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	in := layout.Bytes(out.Bytes())
	f, err := apr1.Decode(in, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range f.Index().Tensors {
		b, err := in.Slice(t.Offset, t.Stored)
		if err != nil {
			log.Fatal(err)
		}
		for _, q := range b {
			fmt.Printf("%.2f ", t.Quant.Scale*float32(int8(q)))
		}
		fmt.Printf("%s %v %v\n", t.Name, t.DType, t.Shape)
	}
	md, err := f.Metadata(in)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"model_type", "n_vocab", "vocab"} {
		v, _ := md.Get(key)
		fmt.Println(key, v)
	}
	// Output:
	// 0.50 -1.27 0.01 encoder.weight I8 [3 1]
	// model_type tiny.en
	// n_vocab 51864
	// vocab [<|endoftext|>]
}
