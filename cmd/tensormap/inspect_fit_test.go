package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
)

// fitting writes a model whose layers 1 and 3 see all tokens and the others 8.
func fitting(t *testing.T, config string) (path string) {
	dir := t.TempDir()
	model := modeltest.SafeTensors(modeltest.Random("model.embed_tokens.weight", layout.BF16, 256, 4), modeltest.Random("model.layers.0.w", layout.U8, 1024),
		modeltest.Random("model.layers.1.w", layout.U8, 1024), modeltest.Random("model.layers.2.w", layout.U8, 1024), modeltest.Random("model.layers.3.w", layout.U8, 1024))
	for name, b := range map[string]string{"model.safetensors": string(model), "config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const slidingConfig = `{"model_type":"gemma2","num_hidden_layers":4,"num_key_value_heads":2,"head_dim":16,"sliding_window":8,"max_position_embeddings":4096}`

// TestInspectFit shows what a model takes, and how that compares with memory.
func TestInspectFit(t *testing.T) {
	dir := fitting(t, slidingConfig)
	got := done(t, "inspect", dir, "--fit", "--context", "64", "--memory", "24KiB")
	// A token takes 2 × 2 × 16 × 2 = 128 bytes in a layer: 2 × 64 × 128 + 2 × 8 × 128 = 18,432 bytes, beside 6 KiB.
	const want = `
context  64 tokens
weights  6.00 KiB (U8 4.00 KiB, BF16 2.00 KiB)
cache    18.0 KiB in F16, 512 B a token
total    24.0 KiB (24,576 bytes)
memory   24.0 KiB: it fits; up to 64 tokens would fit

PART                LAYERS  KEEPS               WEIGHTS  WINDOW  A TOKEN     CACHE  STATE
layers 0,2               2  sliding attention  2.00 KiB       8    256 B  2.00 KiB       
layers 1,3               2  attention          2.00 KiB            256 B  16.0 KiB       
model.embed_tokens                             2.00 KiB                                  
total                    4                     6.00 KiB            512 B  18.0 KiB       

Not counted: activations and buffers of the program that runs it.
`
	if _, after, _ := strings.Cut(got, "\n\n"); trimmed("\n"+after) != trimmed(want) {
		t.Errorf("%s", got)
	}
	for _, tc := range [][2]string{
		{"--context 64 --memory 4KiB", "4.00 KiB: it does not fit: 20.0 KiB too much; without any token it takes 6.00 KiB, and less only in a smaller type: convert --dtype"},
		{"--context 65 --memory 24KiB", "24.0 KiB: it does not fit: 256 B too much; up to 64 tokens would fit"},
		{"--context 65 --memory 6KiB", "6.00 KiB: it does not fit: 18.3 KiB too much; no token would fit in addition to the weights"},
		{"--memory 24GB", "memory   24 GB (22.4 GiB): it fits; up to 93,749,968 tokens would fit, and the model is made for 4,096"},
		{"--context 64 --kv q8_0", "cache    9.56 KiB in Q8_0, 272 B a token"},
		{"--context 64 --sequences 2", "context  64 tokens in each of 2 sequences"},
		{"--context 64 --sequences 2 --memory 42KiB", "it fits; up to 64 tokens in each of 2 sequences would fit"},
		{"--context 5000", "context  5,000 tokens (the model is made for 4,096)"},
	} {
		if got := done(t, append([]string{"inspect", dir, "--fit"}, strings.Fields(tc[0])...)...); !strings.Contains(got, tc[1]) {
			t.Errorf("%s: %q is not in\n%s", tc[0], tc[1], got)
		}
	}
	got = done(t, "inspect", fitting(t, `{"num_hidden_layers":4}`), "--fit", "--memory", "24KiB")
	if !strings.Contains(got, "\nNot known:\n- cache of a token: neither") || !strings.Contains(got, "cache    not known\ntotal    at least 6.00 KiB\nmemory   24.0 KiB: the weights fit; the cache is not known\n") || !strings.Contains(got, "context  not known\n") {
		t.Errorf("\n%s", got)
	}
}

// TestInspectFitUnknown: neither text nor JSON says that a model fits if nothing is known of its cache.
func TestInspectFitUnknown(t *testing.T) {
	args := []string{"inspect", filepath.Join("..", "..", "testdata", "quantized", "original"), "--fit", "--context", "32768", "--memory", "24GB"}
	got := done(t, args...)
	for _, says := range []string{"cache    not known\ntotal    at least 181 KiB\nmemory   24 GB (22.4 GiB): the weights fit; the cache is not known\n", "num_hidden_layers"} {
		if !strings.Contains(got, says) {
			t.Errorf("%q is not in\n%s", says, got)
		}
	}
	var parsed struct{ Fit map[string]any }
	if err := json.Unmarshal([]byte(done(t, append(args, "--json")...)), &parsed); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kv_bytes_per_token", "kv_bytes", "total_bytes"} {
		if v, ok := parsed.Fit[name]; v != nil || !ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	if parsed.Fit["fits"] != nil || parsed.Fit["largest_context"] != nil || parsed.Fit["weights_bytes"] != 185004.0 {
		t.Errorf("%v", parsed.Fit)
	}
}

// trimmed returns s without spaces at the ends of lines.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestInspectFitJSON has the names that are a contract.
func TestInspectFitJSON(t *testing.T) {
	out := done(t, "inspect", fitting(t, slidingConfig), "--json", "--fit", "--context", "64", "--memory", "24KiB")
	var got struct {
		Fit struct {
			Context         int
			WeightsBytes    int  `json:"weights_bytes"`
			KVBytesPerToken int  `json:"kv_bytes_per_token"`
			KVBytes         int  `json:"kv_bytes"`
			TotalBytes      int  `json:"total_bytes"`
			MemoryBytes     int  `json:"memory_bytes"`
			Fits            bool `json:"fits"`
			LargestContext  int  `json:"largest_context"`
			Unknown         []string
			Layers          []struct {
				Layer, Window int
				Kind          string
				KVBytes       int `json:"kv_bytes"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	f := got.Fit
	if f.Context != 64 || f.WeightsBytes != 6144 || f.KVBytesPerToken != 512 || f.KVBytes != 18432 || f.TotalBytes != 24576 || f.MemoryBytes != 24576 ||
		!f.Fits || f.LargestContext != 64 || f.Unknown == nil || len(f.Layers) != 4 || f.Layers[2].Window != 8 || f.Layers[2].KVBytes != 1024 || f.Layers[3].Kind != "attention" {
		t.Errorf("%+v\n%s", f, out)
	}
	if out := done(t, "inspect", fitting(t, slidingConfig), "--json"); strings.Contains(out, `"fit"`) {
		t.Error("fit without --fit")
	}
}

// TestInspectFitUsage refuses flags that contradict each other.
func TestInspectFitUsage(t *testing.T) {
	file := modeltest.Small(t)
	for args, says := range map[string]string{
		"--context 5":           "--context is a flag of --fit",
		"--memory 5GB":          "--memory is a flag of --fit",
		"--kv f16":              "--kv is a flag of --fit",
		"--fit --context 0":     "--context 0 is not positive",
		"--fit --sequences -1":  "--sequences -1 is not positive",
		"--fit --kv int":        "must be one of f16",
		"--fit --memory x":      "must be a size",
		"--fit --memory 24":     "has no unit, as 24MB and 24GB have; bytes are 24B",
		"--max-header 100":      "has no unit",
		"--fit --tree":          "--fit is of all tensors",
		"--fit --filter weight": "--fit is of all tensors",
	} {
		r := tensormap(append([]string{"inspect", file}, strings.Fields(args)...)...)
		if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
