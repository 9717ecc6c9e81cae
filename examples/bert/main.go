// Command bert computes sentence vectors with a BERT such as all-MiniLM-L6-v2, from weights as they are stored:
// SafeTensors, or GGUF quantized by tensormap convert. The weights are mapped, and loader.Tensor.MatMul multiplies
// by them without expanding them. Tokens, attention and norms, which the loader does not do, are here in plain Go.
//
//	tensormap pull hf://sentence-transformers/all-MiniLM-L6-v2
//	go run . -model FOLDER 'A cat sits.' 'A kitten sits.' 'Stocks fell.'
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/loader"
)

func main() {
	log.SetFlags(0)
	path := flag.String("model", "", "the model: a file, or the folder that tensormap pull names")
	vocab := flag.String("vocab", "", "its vocab.txt; without it, that beside the model")
	flag.Parse()
	if err := compare(context.Background(), *path, *vocab, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// open opens a model and its vocabulary. The caller closes m.
func open(ctx context.Context, path, vocab string) (m *loader.Model, b *Model, t *Tokenizer, err error) {
	if m, err = loader.Open(path, nil); err != nil {
		return nil, nil, nil, err
	}
	b, err = NewModel(ctx, m)
	if err == nil {
		t, err = ReadVocabulary(cmp.Or(vocab, filepath.Join(filepath.Dir(m.Files()[0].Path), "vocab.txt")))
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, m.Close())
	}
	return m, b, t, nil
}

// compare prints how close each sentence is to the first.
func compare(ctx context.Context, path, vocab string, sentences []string) error {
	if path == "" || len(sentences) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	m, b, t, err := open(ctx, path, vocab)
	if err != nil {
		return err
	}
	defer m.Close()
	var first []float32
	for _, s := range sentences {
		v, err := b.Embed(ctx, t.Encode(s, longest))
		if err != nil {
			return err
		}
		if first == nil {
			first = v
		}
		fmt.Printf("%6.3f  %s\n", product(first, v), s)
	}
	return nil
}

// longest is the most tokens of a sentence that all-MiniLM-L6-v2 was trained with.
const longest = 256
