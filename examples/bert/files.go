package bert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Pooling is how the vectors of a text's tokens become one.
type Pooling string

const (
	Mean Pooling = "mean" // the mean over all tokens
	CLS  Pooling = "cls"  // the vector of the first token
)

// readTokenizer returns the tokenizer of the vocabulary at path. If path is "", it takes the tokens in m's metadata, as
// llama.cpp writes them, or else vocab.txt beside m. The error is of reading, or of a vocabulary that is missing or not uncased.
func readTokenizer(ctx context.Context, m *loader.Model, path string) (*Tokenizer, error) {
	if path == "" {
		md, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		if tokens, err := layout.Get[[]string](md, "tokenizer.ggml.tokens"); err == nil {
			t, err := newTokenizer(withContinuations(tokens))
			if kind, _ := layout.Get[string](md, "tokenizer.ggml.model"); kind != "bert" {
				err = fmt.Errorf("tokenizer.ggml.model is %q, only \"bert\" is read here", kind)
			}
			return t, named(m.Path(), err)
		}
	}
	var text []byte
	var err error
	if path != "" {
		text, err = os.ReadFile(path)
	} else {
		text, err = m.ReadBeside(ctx, "vocab.txt", 16<<20)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, loader.ErrUnsupported) {
			err = fmt.Errorf("%s: no vocabulary in it and no vocab.txt beside it: name one (--vocab): %w", m.Path(), err)
		}
		path = m.Path() + ": vocab.txt beside it"
	}
	if err != nil {
		return nil, err
	}
	t, err := newTokenizer(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"))
	return t, named(path, err)
}

// withContinuations returns tokens as vocab.txt has them, from the tokens that llama.cpp writes: it marks tokens that begin a
// word where vocab.txt marks tokens that continue one.
func withContinuations(tokens []string) []string {
	list := make([]string, len(tokens))
	for i, token := range tokens {
		word, begins := strings.CutPrefix(token, "▁")
		if special := strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]"); !begins && !special {
			word = "##" + token
		}
		list[i] = word
	}
	return list
}

// readPooling returns how m pools, which is as asked if that is not "". It also returns the most tokens that m was trained
// with, 0 if no file says. GGUF has the pooling in its metadata, a model of sentence-transformers in files beside it: modules.json names them.
// The error is of files that say something else than this package computes, or of none that says.
func readPooling(ctx context.Context, m *loader.Model, c *loader.Config, asked Pooling) (p Pooling, maxTokens int, err error) {
	var trained struct {
		Tokens int `json:"max_seq_length"`
	}
	if err := readJSON(ctx, m, "sentence_bert_config.json", &trained); err != nil {
		return "", 0, err
	}
	if p = asked; p == "" {
		if p, err = poolingOf(ctx, m, c); err != nil {
			return "", 0, err
		}
	}
	if p != Mean && p != CLS {
		return "", 0, fmt.Errorf("%s: pooling %q: say mean or cls by --pooling", m.Path(), p)
	}
	return p, trained.Tokens, nil
}

// poolingOf returns what the files of m say of pooling, "" if nothing.
func poolingOf(ctx context.Context, m *loader.Model, c *loader.Config) (Pooling, error) {
	if n, err := c.Int("bert.pooling_type"); err == nil {
		return map[int]Pooling{1: Mean, 2: CLS}[n], nil // llama.cpp's enum llama_pooling_type
	}
	var modules []struct{ Path, Type string }
	if err := readJSON(ctx, m, "modules.json", &modules); err != nil {
		return "", err
	}
	var p Pooling
	for _, module := range modules {
		switch module.Type[strings.LastIndex(module.Type, ".")+1:] {
		case "Transformer", "Normalize":
		case "Pooling":
			var modes map[string]any
			name := module.Path + "/config.json"
			if err := readJSON(ctx, m, name, &modes); err != nil || modes == nil {
				return "", err
			}
			var set []string
			for key, v := range modes {
				if mode, is := strings.CutPrefix(key, "pooling_mode_"); is && v == true {
					set = append(set, mode)
				}
			}
			if v, is := modes["pooling_mode"].(string); is {
				set = append(set, v)
			}
			p = map[string]Pooling{"mean_tokens": Mean, "mean": Mean, "cls_token": CLS, "cls": CLS}[strings.Join(set, "+")]
			if p == "" {
				return "", fmt.Errorf("%s: %s: pooling by %q, only mean and cls are computed here", m.Path(), name, set)
			}
		default:
			return "", fmt.Errorf("%s: modules.json: a %q is not computed here", m.Path(), module.Type)
		}
	}
	return p, nil
}

// readJSON parses the file called name beside m into v. It leaves v as it is if there is none.
func readJSON(ctx context.Context, m *loader.Model, name string, v any) error {
	text, err := m.ReadBeside(ctx, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, loader.ErrUnsupported) {
		return nil
	}
	if err == nil {
		err = named(m.Path()+": "+name, json.Unmarshal(text, v))
	}
	return err
}

// named puts the name of a file before an error, if there is one.
func named(file string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return err
}
