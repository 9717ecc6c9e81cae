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
// Formats that spell the keys their own way, as GGUF does, translate ([layout.Configurer]). Older files
// have other names, such as n_embd, which are tried too. Names beyond the list are looked up as they
// are. vocab_size is the number of tokens in the file if it says nothing else.
//
// The answers are as little to be trusted as any file: check them against the tensors' shapes, as
// package bind does, before memory is taken for them.
type Config struct {
	path           string
	configFile     layout.Metadata   // config.json, or nil
	objects        []layout.Metadata // in which keys are looked up: the first object that has a key counts
	besideModel    []layout.Metadata // the objects of config.json, the first ones of objects
	fromConversion []layout.Metadata // the objects that package convert has put into the metadata of a file of another format
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

// configBytes bounds a config.json: hundreds of times what the files of large models have.
const configBytes = 4 << 20

// Config returns the model's configuration: its metadata and, for SafeTensors, the config.json beside
// it. If the model has no such file, or is in memory, only its metadata count. The first call reads;
// ctx and Close end that.
func (m *Model) Config(ctx context.Context) (*Config, error) {
	return readWhileOpen(ctx, m, nil, m.configuration)
}

// ConfigFile returns the object in config.json beside the model if it has been read: by [Model.Config], or by opening a
// quantized checkpoint. Otherwise it returns nil.
func (m *Model) ConfigFile() layout.Metadata {
	if c := m.config.Load(); c != nil {
		return c.configFile
	}
	return nil
}

// configuration returns the configuration of the model, which the first call builds. Keys are looked up in its objects in this order: the
// objects of config.json, what the format translates, what package convert has put into the metadata, and the metadata. The first object that
// has a key counts. The caller holds the model open. configuration fails if metadata or config.json cannot be read or parsed.
func (m *Model) configuration(ctx context.Context) (*Config, error) {
	if c := m.config.Load(); c != nil {
		return c, nil
	}
	parsed, err := m.parseMetadata(ctx)
	if err != nil {
		return nil, err
	}
	md, c := parsed.keys, &Config{path: m.path}
	if m.Format() == layout.SafeTensors {
		if c.configFile, err = m.objectBeside(ctx, "config.json"); err != nil {
			return nil, err
		}
		c.besideModel = slices.Clip(withLanguageObject(c.configFile)) // so that every append copies them
	}
	c.objects = c.besideModel
	if f, ok := m.files[0].layout.(layout.Configurer); ok { // all files have one format
		c.objects = append(c.objects, f.Config(md))
	}
	if err := m.addConverted(c, md); err != nil {
		return nil, err
	}
	c.objects = append(append(c.objects, c.fromConversion...), md)
	m.config.Store(c)
	return c, nil
}

// addConverted appends to c.fromConversion the objects that package convert has put into md. The first is the object called architecture,
// if md has one, and behind it come the objects in it that describe the language model. The last is an object of all keys in carriedKeys
// that md has. addConverted fails if the JSON of a key is malformed, or has more than configBytes bytes.
func (m *Model) addConverted(c *Config, md layout.Metadata) error {
	own, err := apr2.Carried(md, m.Format(), configBytes, m.opts.Limits.WithDefaults(), carriedKeys...)
	if err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	if object, ok := own.Get("architecture"); ok {
		c.fromConversion = append(c.fromConversion, withLanguageObject(object.(layout.Metadata))...) // apr2.Carried returns objects only
	}
	c.fromConversion = append(c.fromConversion, own)
	return nil
}

// carriedKeys are the objects that package convert keeps, and that tell how weights are stored.
var carriedKeys = []string{"architecture", "quantization", "safetensors"}

// ReadBeside reads a file of at most limit bytes that lies beside the model: in its directory, or as a sibling of its reader. name
// is a path below that directory, such as tokenizer_config.json or 1_Pooling/config.json. With Options.Trust its bytes are verified.
// It fails with fs.ErrNotExist if there is no such file. It fails with ErrUnsupported if the model has no directory or siblings, and
// with ErrTooLarge if the file has more than limit bytes.
func (m *Model) ReadBeside(ctx context.Context, name string, limit uint64) ([]byte, error) {
	if name == "." || !filepath.IsLocal(name) || name != path.Clean(filepath.ToSlash(name)) {
		return nil, fmt.Errorf("%w: %q is not the path of a file below the model's directory", layout.ErrInvalid, name)
	}
	return readWhileOpen(ctx, m, nil, func(ctx context.Context) ([]byte, error) { return m.source.readBeside(ctx, name, limit) })
}

// withLanguageObject returns a list: config, and then the objects in config that describe the language model. Many models have no
// such object.
func withLanguageObject(config layout.Metadata) []layout.Metadata {
	list := []layout.Metadata{config}
	for _, key := range []string{"text_config", "llm_config", "language_config"} {
		v, _ := config.Get(key)
		if object, ok := v.(layout.Metadata); ok {
			list = append(list, object)
		}
	}
	return list
}

// objectBeside returns the JSON object in the file called name beside the model, or nil if there is none. The JSON may have NaN and
// Infinity, as Python writes them. It fails if the file cannot be read or parsed, or has more than configBytes.
func (m *Model) objectBeside(ctx context.Context, name string) (layout.Metadata, error) {
	text, err := m.source.readBeside(ctx, name, configBytes)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object, err := jsontext.ParsePython(mmapio.String(text), "JSON", 0, name, m.opts.Limits.WithDefaults())
	return object, inFile(m.path, err)
}

// Value returns the first value that the model's files have under name, or another name of it; see [layout.Metadata] for the types.
// It returns false if there is none.
func (c *Config) Value(name string) (any, bool) {
	for v := range c.values(name) {
		return v, true
	}
	return nil, false
}

// values yields the values under name, and then the values under its other names in spellings, by the order of c.objects. It leaves out null.
// For vocab_size it also yields how many texts the lists called vocab and tokens have.
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
				if texts, ok := layout.As[[]string](v); ok && !yield(len(texts)) {
					return
				}
			}
		}
	}
}

// firstAs returns the first value under name, or under its other names, that converts to a T. It fails with ErrNotFound if there is
// no value. If no value converts, it fails with layout.ErrInvalid, and the error says which type the first value has.
func firstAs[T any](c *Config, name string) (T, error) {
	var none T
	var err error
	for v := range c.values(name) {
		if converted, ok := layout.As[T](v); ok {
			return converted, nil
		}
		if err == nil {
			err = fmt.Errorf("%s: configuration: %q: %w: a %T, want %T", c.path, name, layout.ErrInvalid, v, none)
		}
	}
	if err == nil {
		err = fmt.Errorf("%s: configuration: %q: %w", c.path, name, ErrNotFound)
	}
	return none, err
}

// Bool returns the first truth value under name, or another name of it. It fails with ErrNotFound if there is no value, and with
// layout.ErrInvalid if none is a truth value. Int, Ints, Float, Floats and String do the same for values of their types.
func (c *Config) Bool(name string) (bool, error) { return firstAs[bool](c, name) }

// Int returns the first value under name that is an integer and in range: see Bool.
func (c *Config) Int(name string) (int, error) { return firstAs[int](c, name) }

// Ints returns the first list of integers under name, such as the heads of each layer: see Bool.
func (c *Config) Ints(name string) ([]int, error) { return firstAs[[]int](c, name) }

// Float returns the first number under name: see Bool. The texts "NaN", "Infinity" and "-Infinity" are numbers, as
// [layout.Metadata.MarshalJSON] writes them.
func (c *Config) Float(name string) (float64, error) { return firstAs[float64](c, name) }

// Floats returns the first list of numbers under name: see Bool.
func (c *Config) Floats(name string) ([]float64, error) { return firstAs[[]float64](c, name) }

// String returns the first text under name: see Bool.
func (c *Config) String(name string) (string, error) { return firstAs[string](c, name) }
