package loader_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// TestConfig asks fixtures of every format the same questions.
func TestConfig(t *testing.T) {
	for path, want := range map[string]map[string]int{
		"gguf/llama.gguf": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
			"max_position_embeddings": 4096, "vocab_size": 6, "bos_token_id": 1, "llama.block_count": 2},
	} {
		c := must(openPath(t, filepath.Join("..", "testdata", path), nil).Config(t.Context()))(t)
		for name, n := range want {
			if got, err := c.Int(name); got != n || err != nil {
				t.Errorf("%s: %s is %d, want %d; %v", path, name, got, n, err)
			}
		}
		if eps, err := c.Float("rms_norm_eps"); err != nil || float32(eps) != 1e-5 {
			t.Errorf("%s: %g, %v", path, eps, err)
		}
		if kind, err := c.String("model_type"); kind != "llama" || err != nil {
			t.Errorf("%s: %q, %v", path, kind, err)
		}
		if _, err := c.Int("num_key_value_heads"); !errors.Is(err, layout.ErrInvalid) { // one for each layer
			t.Error(err)
		}
		if heads, err := c.Ints("num_key_value_heads"); len(heads) != 2 || err != nil {
			t.Errorf("%s: %v, %v", path, heads, err)
		}
		if _, err := c.Int("none"); !errors.Is(err, loader.ErrNotFound) || !strings.Contains(err.Error(), `"none"`) {
			t.Error(err)
		}
	}
}

// TestConfigOfAPR2 reads the object that the specification has for it.
func TestConfigOfAPR2(t *testing.T) {
	md := layout.Metadata{{Key: "apr_version", Value: "2.0.0"}, {Key: "model_type", Value: "bert"},
		{Key: "architecture", Value: layout.Metadata{{Key: "n_layer", Value: 12}}}, {Key: "vocab", Value: []string{"a", "b"}}}
	var file bytes.Buffer
	w, err := apr2.NewWriter(&file, slices.Values[[]layout.Tensor](nil), &apr2.Options{Metadata: md})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := must(openBytes(t, file.Bytes(), nil).Config(t.Context()))(t)
	layers, err := c.Int("num_hidden_layers")
	vocab, err2 := c.Int("vocab_size")
	kind, err3 := c.String("model_type")
	if layers != 12 || vocab != 2 || kind != "bert" || errors.Join(err, err2, err3) != nil {
		t.Errorf("%d, %d, %q, %v", layers, vocab, kind, errors.Join(err, err2, err3))
	}
}

// TestConfigFile reads config.json beside SafeTensors, in every place that has files beside.
func TestConfigFile(t *testing.T) {
	const text = `{"architectures":["A"],"layers":[],"hidden_size":384,"tied":true,"factors":[1,0.5],"big":1e300,"long":99999999999999999999,"null":null,
		"text_config":{"num_hidden_layers":6,"hidden_size":1,"rope_theta":10000}}`
	model := modeltest.SafeTensorsAt(0, `{"format":"pt"}`, modeltest.Random("x", layout.U8, 1))
	dir := t.TempDir()
	for name, b := range map[string]string{"m.safetensors": string(model), "config.json": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	sys, err := loader.OpenFS(os.DirFS(dir), "m.safetensors", nil)
	sys = modeltest.Opened(t, sys, err)
	for _, m := range []*loader.Model{openPath(t, filepath.Join(dir, "m.safetensors"), nil), sys} {
		c := must(m.Config(t.Context()))(t)
		hidden, err := c.Int("hidden_size")
		layers, err2 := c.Int("num_hidden_layers")
		theta, err3 := c.Float("rope_theta")
		format, err6 := c.String("format")
		tied, err7 := c.Bool("tied")
		factors, err8 := c.Floats("factors")
		if err := errors.Join(err, err2, err3, err6, err7, err8); err != nil || !tied || !slices.Equal(factors, []float64{1, 0.5}) || hidden != 384 || layers != 6 || theta != 10000 || format != "pt" {
			t.Errorf("%d, %d, %g, %q, %v", hidden, layers, theta, format, err)
		}
		for _, name := range []string{"big", "long", "architectures"} {
			if n, err := c.Int(name); n != 0 || !errors.Is(err, layout.ErrInvalid) {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if _, ok := c.Value("null"); ok {
			t.Error("null is an answer")
		}
	}
	if _, err := must(openBytes(t, model, nil).Config(t.Context()))(t).Int("hidden_size"); !errors.Is(err, loader.ErrNotFound) {
		t.Errorf("in memory: %v", err)
	}
}

// TestConfigSpellings asks by one name for what files spell otherwise. The spellings of max_position_embeddings are those of
// llama.cpp's convert_hf_to_gguf.py. A value of another type hides none of the next.
func TestConfigSpellings(t *testing.T) {
	for text, want := range map[string]int{
		`{"max_length":1}`: 1, `{"max_sequence_length":2}`: 2, `{"model_max_length":3}`: 3, `{"n_ctx":4,"max_length":5}`: 4,
		`{"max_position_embeddings":null,"n_positions":"none","max_length":[1],"model_max_length":6}`: 6,
		`{"max_position_embeddings":1e30,"text_config":{"max_position_embeddings":7}}`:                7,
		`{"max_position_embeddings":Infinity,"max_length":8}`:                                         8,
	} {
		m, err := loader.OpenFS(fstest.MapFS{"m": {Data: modeltest.SafeTensors(modeltest.Random("x", layout.U8, 1))}, "config.json": {Data: []byte(text)}}, "m", nil)
		if n, err := must(modeltest.Opened(t, m, err).Config(t.Context()))(t).Int("max_position_embeddings"); n != want || err != nil {
			t.Errorf("%s: %d, want %d, %v", text, n, want, err)
		}
	}
}

// TestConfigDistrusted refuses files that are no configuration, and does not read large ones.
func TestConfigDistrusted(t *testing.T) {
	model := modeltest.SafeTensors(modeltest.Random("x", layout.U8, 1))
	for text, want := range map[string]error{
		"[1]": layout.ErrInvalid, "{": layout.ErrInvalid, strings.Repeat("[", 1000): nil,
		`{"a":"` + strings.Repeat("x", 4<<20) + `"}`: loader.ErrTooLarge,
	} {
		m, err := loader.OpenFS(fstest.MapFS{"m": {Data: model}, "config.json": {Data: []byte(text)}}, "m", nil)
		m = modeltest.Opened(t, m, err)
		_, err = m.Config(t.Context())
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), "config") {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	m := openBytes(t, model, nil)
	m.Close()
	if _, err := m.Config(t.Context()); !errors.Is(err, loader.ErrClosed) {
		t.Error(err)
	}
}

// TestConfigOfApril asks for the parameters, which are an object of their own. The number of tokens
// counts them.
func TestConfigOfApril(t *testing.T) {
	m := openPath(t, filepath.Join("..", "testdata", "april", "dtypes.april"), nil)
	md, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	params, _ := md.Get("params")
	c := must(m.Config(t.Context()))(t)
	for _, e := range params.(layout.Metadata) {
		if n, ok := e.Value.(int32); ok {
			if got, err := c.Int(e.Key); err != nil || got != int(n) {
				t.Errorf("%s is %d, want %d; %v", e.Key, got, n, err)
			}
		}
	}
	tokens, _ := md.Get("params", "tokens")
	if n, err := c.Int("vocab_size"); err != nil || n == 0 || n != len(tokens.([]string)) {
		t.Errorf("vocab_size %d, %v", n, err)
	}
}

// TestBrokenConfig has a quantized checkpoint whose config.json breaks off. Each name and the kind of error stand once in what
// is said of its weight.
func TestBrokenConfig(t *testing.T) {
	dir := t.TempDir()
	weights, err := os.ReadFile("../testdata/quantized/gptq-4bit/model.safetensors")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "m.safetensors"), weights, 0o666), os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"a":`), 0o666))
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "m.safetensors")
	m := openPath(t, path, nil)
	report, err := m.Verify(t.Context(), nil)
	if err != nil || len(report.Findings) == 0 {
		t.Fatal(report, err)
	}
	const reason = "config.json: offset 5: the end of the JSON where a value should be (invalid)"
	if got := report.Findings[0].Error(); !strings.HasSuffix(got, `.qweight": `+reason) {
		t.Error(got)
	}
	_, err = tensor(t, m, "model.layers.0.mlp.gate.qweight").Float32s()
	if err == nil || strings.Count(err.Error(), path) != 1 || strings.Count(err.Error(), "invalid") != 1 {
		t.Error(err)
	}
}
