package bert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// A witness is what transformers (tiny.json) or sentence-transformers (minilm.json) make of a text:
// testdata/make_fixtures.py.
type witness struct {
	Text   string
	Tokens []int
	Vector []float32
}

func witnesses(t *testing.T, path string) (list []witness) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %d texts, %v", path, len(list), err)
	}
	return list
}

const tinyFolder = "testdata/tiny"

// open opens a model, with the vocabulary at vocab if that is not "". The caller closes m.
func open(ctx context.Context, path, vocab string) (m *loader.Model, b *Model, err error) {
	if m, err = loader.Open(path, nil); err != nil {
		return nil, nil, err
	}
	if b, err = New(ctx, m, Options{Vocabulary: vocab, Pooling: Mean}); err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return m, b, nil
}

// check embeds all texts. No element of a vector is more than far from the witness's, and no cosine below near.
func check(t *testing.T, path, vocab, fixture string, far, near float64) {
	t.Helper()
	ctx := context.Background()
	m, b, err := open(ctx, path, vocab)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	farthest, nearest := 0.0, 1.0
	for _, w := range witnesses(t, fixture) {
		tokens := b.Tokens(w.Text, b.MaxTokens())
		if !slices.Equal(tokens, w.Tokens) {
			t.Errorf("%q: tokens %v, want %v", w.Text, tokens, w.Tokens)
			continue
		}
		v, err := b.Embed(ctx, tokens)
		if err != nil {
			t.Fatal(err)
		}
		var worst float64
		for i := range v {
			worst = max(worst, math.Abs(float64(v[i])-float64(w.Vector[i])))
		}
		cosine := float64(product(v, w.Vector))
		if len(v) != len(w.Vector) || !(worst <= far && cosine >= near) {
			t.Errorf("%q: differs by up to %.2g, cosine %.6f", w.Text, worst, cosine)
		}
		farthest, nearest = max(farthest, worst), min(nearest, cosine)
	}
	t.Logf("differs by up to %.2g, cosine at least %.6f", farthest, nearest)
}

func TestTiny(t *testing.T) {
	check(t, tinyFolder, "", "testdata/tiny.json", 2e-6, 0.999999)
}

// quantized converts a model to a GGUF file of a type or of a recipe.
func quantized(t *testing.T, path, dtype string) string {
	t.Helper()
	m, err := loader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	config, _, err := convert.SideFiles(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	opts := &convert.Options{Config: config}
	if d, ok := layout.ParseDType(strings.ToUpper(dtype)); ok {
		opts.DType = d
	} else {
		opts.Recipe = dtype
	}
	out := filepath.Join(t.TempDir(), dtype+".gguf")
	if _, err := convert.Write(context.Background(), m, out, opts); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTinyQuantized(t *testing.T) {
	path := quantized(t, tinyFolder, "q8_0")
	m, b, err := open(t.Context(), path, tinyFolder+"/vocab.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.dtypes(); got != "Q8_0" {
		t.Errorf("matrices of %s", got)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	check(t, path, tinyFolder+"/vocab.txt", "testdata/tiny.json", 0.02, 0.999)
}

// TestMiniLM needs the folder of all-MiniLM-L6-v2 in BERT_MODEL.
func TestMiniLM(t *testing.T) {
	folder := os.Getenv("BERT_MODEL")
	if folder == "" {
		t.Skip("BERT_MODEL names no folder of all-MiniLM-L6-v2")
	}
	vocab := filepath.Join(folder, "vocab.txt")
	check(t, folder, "", "testdata/minilm.json", 2e-6, 0.999999)
	for dtype, near := range map[string]float64{"f16": 0.99999, "q8_0": 0.998, "q6_k": 0.996, "q4_k_m": 0.97} {
		t.Run(dtype, func(t *testing.T) {
			check(t, quantized(t, folder, dtype), vocab, "testdata/minilm.json", 1, near)
		})
	}
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	if _, _, err := open(ctx, "../../testdata/gguf/llama.gguf", ""); err == nil {
		t.Error("a llama is no BERT, but opened")
	}
	m, b, err := open(ctx, tinyFolder, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, tokens := range [][]int{nil, make([]int, 161), {1 << 20}, {-1}} {
		if _, err := b.Embed(ctx, tokens); err == nil {
			t.Errorf("%d tokens, the first of which the model lacks: no error", len(tokens))
		}
	}
}

// TestFiles asks for what files beside a model may say, and for what they may not leave out.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name, text string  // of a file beside the model
		pooling    Pooling // asked for
		want       string  // a pooling, or a part of an error
	}{
		{"", "", "", "say mean or cls"},
		{"", "", Mean, "mean"},
		{"", "", "max", "say mean or cls"},
		{"1_Pooling/config.json", `{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}`, "", "cls"},
		{"1_Pooling/config.json", `{"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}`, "", "mean"},
		{"1_Pooling/config.json", `{"pooling_mode": "mean"}`, "", "mean"},
		{"1_Pooling/config.json", `{"pooling_mode_max_tokens": true}`, "", "only mean and cls"},
		{"1_Pooling/config.json", `{"pooling_mode_max_tokens": true}`, CLS, "cls"},
		{"modules.json", `[{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]`, "", `Dense" is not computed`},
		{"vocab.txt", "[CLS]\n[SEP]\n[UNK]\nThe", Mean, `"The" has upper case`},
		{"vocab.txt", "[CLS]\n[SEP]\nthe", Mean, "no token [UNK]"},
		{"config.json", `{"model_type": "roberta", "num_attention_heads": 4, "layer_norm_eps": 1e-12}`, Mean, `model_type is "roberta"`},
		{"config.json", `{"model_type": "bert", "hidden_act": "relu", "num_attention_heads": 4, "layer_norm_eps": 1e-12}`, Mean, `hidden_act is "relu"`},
		{"config.json", `{"model_type": "bert", "layer_norm_eps": 1e-12}`, Mean, "num_attention_heads"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(tinyFolder)); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{c.name: c.text}
		if c.name == "1_Pooling/config.json" {
			files["modules.json"] = `[{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]`
		}
		delete(files, "")
		for name, text := range files {
			name = filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.RemoveAll(name), os.WriteFile(name, []byte(text), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		m, err := loader.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		b, err := New(t.Context(), m, Options{Pooling: c.pooling})
		if got := fmt.Sprint(err); err == nil && string(b.pooling) != c.want || err != nil && !strings.Contains(got, c.want) {
			t.Errorf("%s %s, asked for %q: %v, want %q", c.name, c.text, c.pooling, got, c.want)
		}
	}
}

// TestVocabularyOfGGUF takes the tokens from metadata, where llama.cpp marks those that begin a word.
func TestVocabularyOfGGUF(t *testing.T) {
	t.Parallel()
	got := withContinuations([]string{"[PAD]", "▁the", "able", "▁[", "["})
	if want := []string{"[PAD]", "the", "##able", "[", "##["}; !slices.Equal(got, want) {
		t.Errorf("tokens %q, want %q", got, want)
	}
}

// dtypes names the types of the matrices of the layers.
func (b *Model) dtypes() string {
	var list []string
	for i := range b.Layers {
		l := &b.Layers[i]
		for _, w := range []linear{l.Query, l.Key, l.Value, l.Output, l.Up, l.Down} {
			if name := w.Weight.DType().String(); !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return strings.Join(list, ", ")
}

// BenchmarkEmbed measures the model in BERT_MODEL, a file or a folder, with the vocabulary in BERT_VOCAB if it lies elsewhere:
// a query of 5 tokens and a sentence of 42. It reports the time until the model was ready, and the most bytes that the process
// has had in memory, pages of mapped files included.
func BenchmarkEmbed(b *testing.B) {
	path := os.Getenv("BERT_MODEL")
	if path == "" {
		b.Skip("BERT_MODEL names no model")
	}
	begun := time.Now()
	m, model, err := open(b.Context(), path, os.Getenv("BERT_VOCAB"))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	ready := time.Since(begun)
	for _, text := range []string{"quantized weights", sentence} {
		tokens := model.Tokens(text, model.MaxTokens())
		b.Run(fmt.Sprintf("tokens=%d", len(tokens)), func(b *testing.B) {
			for b.Loop() {
				if _, err := model.Embed(b.Context(), tokens); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(ready.Microseconds())/1e3, "ready-ms")
			b.ReportMetric(maxResidentMB(), "MB")
		})
	}
}

const sentence = "A program that multiplies by quantized weights as they are stored reads a quarter of the bytes, " +
	"keeps none of them twice, and answers before the other one has expanded its first layer."

// maxResidentMB returns VmHWM of /proc, or 0 where there is none.
func maxResidentMB() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, _ := strconv.ParseUint(kib, 10, 64)
	return float64(n<<10) / 1e6
}
