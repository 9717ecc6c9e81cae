package bert_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tensormap/tensormap/examples/bert"
	"github.com/tensormap/tensormap/loader"
)

// How close sentences are to the first: the cosine of their vectors. The weights of this tiny model are random numbers.
func Example() {
	ctx := context.Background()
	m, err := loader.Open("testdata/tiny", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	b, err := bert.New(ctx, m, bert.Options{Pooling: bert.Mean})
	if err != nil {
		log.Fatal(err)
	}
	var first []float32
	for _, s := range []string{"A cat sat.", "A cat sat on a mat.", "Stocks fell."} {
		v, err := b.Embed(ctx, b.Tokens(s, b.MaxTokens()))
		if err != nil {
			log.Fatal(err)
		}
		if first == nil {
			first = v
		}
		var cosine float32
		for i := range v {
			cosine += first[i] * v[i]
		}
		fmt.Printf("%.3f  %s\n", cosine, s)
	}
	// Output:
	// 1.000  A cat sat.
	// 0.870  A cat sat on a mat.
	// 0.851  Stocks fell.
}
