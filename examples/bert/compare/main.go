// Command compare prints how close sentences are, by a BERT such as all-MiniLM-L6-v2 whose weights stay as they are
// stored: SafeTensors, or GGUF quantized by tensormap convert. Package bert in the folder above computes the vectors.
//
//	tensormap pull hf://sentence-transformers/all-MiniLM-L6-v2
//	go run ./compare -model FOLDER 'A cat sits.' 'A kitten sits.' 'Stocks fell.'
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/tensormap/tensormap/examples/bert"
	"github.com/tensormap/tensormap/loader"
)

func main() {
	log.SetFlags(0)
	path := flag.String("model", "", "the model: a file, or the folder that tensormap pull names")
	var opts bert.Options
	flag.StringVar(&opts.Vocabulary, "vocab", "", "its vocab.txt; without it, the vocabulary beside or in the model")
	flag.StringVar((*string)(&opts.Pooling), "pooling", "", "mean or cls; without it, what the model's files say")
	flag.Parse()
	if *path == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := compare(context.Background(), *path, opts, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// compare prints how close each sentence is to the first: the cosine of their vectors.
func compare(ctx context.Context, path string, opts bert.Options, sentences []string) error {
	m, err := loader.Open(path, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	b, err := bert.New(ctx, m, opts)
	if err != nil {
		return err
	}
	var first []float32
	for _, s := range sentences {
		v, err := b.Embed(ctx, b.Tokens(s, b.MaxTokens()))
		if err != nil {
			return err
		}
		if first == nil {
			first = v
		}
		var cosine float32
		for i := range v {
			cosine += first[i] * v[i]
		}
		fmt.Printf("%6.3f  %s\n", cosine, s)
	}
	return nil
}
