package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/mmapio"
)

// Config answers what a model's files say about its architecture. A question has the same name for
// every format, that in Hugging Face's config.json:
//
//	model_type hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
//	intermediate_size max_position_embeddings vocab_size rms_norm_eps layer_norm_eps rope_theta
//	sliding_window num_local_experts num_experts_per_tok bos_token_id eos_token_id pad_token_id
//
// Formats that spell these their own way, as GGUF does, translate ([layout.Configurer]). Older files
// have other names, such as n_embd, which are tried too. Names beyond the list are looked up as they
// are. vocab_size is the number of tokens in the file if it says nothing else.
//
// The answers are as little to be trusted as any file: check them against the tensors' shapes, as
// package bind does, before memory is taken for them.
type Config struct {
	path    string
	file    layout.Metadata   // config.json, or nil
	objects []layout.Metadata // in the order in which they are asked
	beside  []layout.Metadata // those of config.json
	carried []layout.Metadata // those that package convert keeps in a file of another format
}

// spellings lists the other names of a question in files that are not GGUF.
var spellings = map[string][]string{
	"hidden_size":             {"d_model", "n_embd", "dim", "n_text_state"},
	"num_hidden_layers":       {"n_layer", "n_layers", "num_layers", "n_text_layer"},
	"num_attention_heads":     {"n_head", "n_heads", "num_heads", "n_text_head"},
	"num_key_value_heads":     {"n_kv_heads", "n_head_kv"},
	"intermediate_size":       {"n_inner", "ffn_dim", "d_ff"},
	"max_position_embeddings": {"n_positions", "n_ctx", "max_seq_len", "n_text_ctx", "max_length", "max_sequence_length", "model_max_length"}, // llama.cpp's last ones
	"vocab_size":              {"n_vocab"},
	"rms_norm_eps":            {"norm_eps"},
	"layer_norm_eps":          {"layer_norm_epsilon"},
	"rope_theta":              {"rotary_emb_base"},
	"num_local_experts":       {"num_experts", "n_routed_experts"},
}

// configBytes bounds a config.json: hundreds of times what those of large models have.
const configBytes = 4 << 20

// Config returns the model's configuration: its metadata and, for SafeTensors, the config.json beside
// it. A model without that file, or in memory, has what its metadata says. The first call reads;
// ctx and Close end that.
func (m *Model) Config(ctx context.Context) (*Config, error) {
	return holding(ctx, m, func(ctx context.Context, m *Model) (*Config, error) { return m.configuration(ctx) })
}

// ConfigFile returns the object in config.json beside the model if it has been read: by [Model.Config], or by opening a
// quantized checkpoint. Otherwise it returns nil.
func (m *Model) ConfigFile() layout.Metadata {
	if c, ok := m.config.Load().(*Config); ok {
		return c.file
	}
	return nil
}

// configuration returns what Config returns, for a caller that holds the model open. It builds the configuration once.
// The error is that of reading or parsing metadata, config.json, or what a conversion has added.
func (m *Model) configuration(ctx context.Context) (*Config, error) {
	if c, ok := m.config.Load().(*Config); ok {
		return c, nil
	}
	md, err := m.parsedMetadata(ctx)
	if err != nil {
		return nil, err
	}
	c := &Config{path: m.path}
	if m.Format() == layout.SafeTensors {
		if err := m.addConfigFile(ctx, c); err != nil {
			return nil, err
		}
	}
	c.beside = slices.Clip(c.objects)
	if f, ok := m.files[0].layout.(layout.Configurer); ok {
		c.objects = append(c.objects, f.Config(md))
	}
	if err := m.addConverted(c, md); err != nil {
		return nil, err
	}
	c.objects = append(append(c.objects, c.carried...), md)
	m.config.Store(c)
	return c, nil
}

// addConverted adds to c.carried what package convert has put into md, the metadata of a converted model: first the
// object architecture, if there is one, then all. The error names the model.
func (m *Model) addConverted(c *Config, md layout.Metadata) error {
	own, err := apr2.Carried(md, m.Format(), configBytes, m.opts.Limits.WithDefaults(), carriedKeys...)
	if err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	if object, ok := own.Get("architecture"); ok {
		c.carried = append(c.carried, object.(layout.Metadata))
	}
	c.carried = append(c.carried, own)
	return nil
}

// carriedKeys are the objects that package convert keeps, and that tell how weights are stored.
var carriedKeys = []string{"architecture", "quantization", "safetensors"}

// ReadBeside reads a file of at most limit bytes that lies beside the model: in its directory, or as a sibling of
// its reader. name is plain, such as tokenizer_config.json. With Options.Trust its bytes are
// verified. The error is fs.ErrNotExist if there is none, ErrUnsupported if the model has nothing beside it, and
// ErrTooLarge.
func (m *Model) ReadBeside(ctx context.Context, name string, limit uint64) ([]byte, error) {
	if name == "" || name != path.Base(filepath.ToSlash(name)) || name == ".." || name == "." {
		return nil, fmt.Errorf("%w: %q is not the plain name of a file", layout.ErrInvalid, name)
	}
	return holding(ctx, m, func(ctx context.Context, m *Model) ([]byte, error) { return readBeside(ctx, m.from, name, limit) })
}

// addConfigFile reads config.json into c, if there is one. Models of several kinds of input have the numbers of the
// language model in an object of its own, which is added behind. The error is that of reading or parsing.
func (m *Model) addConfigFile(ctx context.Context, c *Config) error {
	file, err := m.objectBeside(ctx, "config.json")
	if err != nil {
		return err
	}
	c.file, c.objects = file, append(c.objects, file)
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		v, _ := file.Get(key)
		if object, ok := v.(layout.Metadata); ok {
			c.objects = append(c.objects, object)
		}
	}
	return nil
}

// objectBeside reads a file of JSON beside the model. Without the file, or if nothing can lie beside the model, it
// returns nil.
func (m *Model) objectBeside(ctx context.Context, name string) (layout.Metadata, error) {
	text, err := readBeside(ctx, m.from, name, configBytes)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object, err := jsontext.ParsePython(mmapio.String(text), "JSON", 0, name, m.opts.Limits.WithDefaults())
	return object, inFile(m.path, err)
}

// Value returns the answer as the file has it; see [layout.Metadata] for the types.
func (c *Config) Value(name string) (any, bool) {
	for v := range c.values(name) {
		return v, true
	}
	return nil, false
}

// values yields all values of a question. Those under its own name come before those under its other names, and for
// each name the objects are asked in order. vocab_size is at last the number of tokens.
func (c *Config) values(name string) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, name := range append([]string{name}, spellings[name]...) {
			for _, md := range c.objects {
				if v, ok := md.Get(name); ok && v != nil && !yield(v) {
					return
				}
			}
		}
		if name != "vocab_size" {
			return
		}
		for _, key := range []string{"vocab", "tokens"} {
			if v, ok := c.Value(key); ok {
				if n, ok := countStrings(v); ok && !yield(n) {
					return
				}
			}
		}
	}
}

// countStrings returns the number of elements of a list of strings. ok is false if v is none.
func countStrings(v any) (n int, ok bool) {
	texts, ok := layout.As[[]string](v)
	return len(texts), ok
}

// answer returns the first value called name that converts to a T. Without any value the error is ErrNotFound. If none
// converts, it is layout.ErrInvalid and tells the first.
func answer[T any](c *Config, name string) (answer T, err error) {
	for v := range c.values(name) {
		if converted, ok := layout.As[T](v); ok {
			return converted, nil
		}
		if err == nil {
			err = fmt.Errorf("%s: configuration: %q: %w: a %T, want %T", c.path, name, layout.ErrInvalid, v, answer)
		}
	}
	if err == nil {
		err = fmt.Errorf("%s: configuration: %q: %w", c.path, name, ErrNotFound)
	}
	return answer, err
}

// Bool returns a truth value. The error is that of Int.
func (c *Config) Bool(name string) (bool, error) { return answer[bool](c, name) }

// Int returns an integer: the first value under one of the names that is one and in range. The error is ErrNotFound, or
// layout.ErrInvalid if there are only others.
func (c *Config) Int(name string) (int, error) { return answer[int](c, name) }

// Ints returns a list of integers, such as the heads of each layer. The error is that of Int.
func (c *Config) Ints(name string) ([]int, error) { return answer[[]int](c, name) }

// Float returns a number. "NaN", "Infinity" and "-Infinity" are numbers, as [layout.Metadata.MarshalJSON] writes them. The error
// is that of Int.
func (c *Config) Float(name string) (float64, error) { return answer[float64](c, name) }

// Floats returns a list of numbers. The error is that of Int.
func (c *Config) Floats(name string) ([]float64, error) { return answer[[]float64](c, name) }

// String returns a string. The error is that of Int.
func (c *Config) String(name string) (string, error) { return answer[string](c, name) }

// Strings returns a list of strings. The error is that of Int.
func (c *Config) Strings(name string) ([]string, error) { return answer[[]string](c, name) }
