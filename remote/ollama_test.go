package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

// ollamaBlob returns weights of a checkpoint of MLX as Ollama stores them: under other names, with metadata.
func ollamaBlob(t *testing.T, fixture, metadata string, weights ...string) []byte {
	t.Helper()
	m, err := loader.Open(filepath.Join("../testdata/quantized", fixture, "model.safetensors"), &loader.Options{Stored: true})
	modeltest.Opened(t, m, err)
	var parts []modeltest.Tensor
	for _, weight := range weights {
		for from, to := range map[string]string{".weight": ".weight", ".scales": ".weight.scale", ".biases": ".weight.bias"} {
			x, err := m.Tensor(weight + from)
			if err != nil {
				continue // a mode without biases
			}
			data, err := x.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, modeltest.Tensor{Name: fixture + "." + weight + to, DType: x.DType(), Shape: x.Shape(), Data: slices.Clone(data)})
		}
	}
	return modeltest.SafeTensorsAt(0, metadata, parts...)
}

func writeAt(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, content, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// ollamaModel writes a model of tensors to a new store of Ollama's.
func ollamaModel(t *testing.T, name string, blobs ...[]byte) {
	t.Helper()
	ollamaLayers(t, name, "tensor", blobs...)
}

// ollamaLayers writes a model of layers of one kind to a new store of Ollama's.
func ollamaLayers(t *testing.T, name, kind string, blobs ...[]byte) {
	t.Helper()
	store := t.TempDir()
	t.Setenv("OLLAMA_MODELS", store)
	var layers []string
	for i, b := range blobs {
		digest := hubtest.Digest(b)
		writeAt(t, filepath.Join(store, "blobs", "sha256-"+digest), b)
		layers = append(layers, fmt.Sprintf(`{"mediaType":"application/vnd.ollama.image.%s","digest":"sha256:%s","size":%d,"name":"%d"}`, kind, digest, len(b), i))
	}
	text := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","layers":[%s]}`, strings.Join(layers, ","))
	writeAt(t, filepath.Join(store, "manifests", "registry.ollama.ai", "library", name, "latest"), []byte(text))
}

// TestOllamaQuantized: tensors that Ollama has quantized have the values that MLX gives them, wherever the types are said: by
// a file of one tensor, or for each tensor of a file.
func TestOllamaQuantized(t *testing.T) {
	const embed, q, k = "model.embed_tokens", "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"
	types := func(of map[string]string) string {
		md := make(map[string]string)
		for weight, kind := range of {
			name, group, _ := strings.Cut(kind, "/")
			md[weight+".quant_type"], md[weight+".group_size"] = name, group
		}
		text, _ := json.Marshal(md)
		return string(text)
	}
	one := ollamaBlob(t, "mlx-4bit", `{"quant_type":"int4","group_size":"64"}`, embed)
	ollamaModel(t, "mixed", one, ollamaBlob(t, "mlx-4bit", types(map[string]string{"mlx-4bit." + q + ".weight": "INT4/64"}), q),
		ollamaBlob(t, "mlx-fp", types(map[string]string{"mlx-fp." + embed + ".weight": "nvfp4/16", "mlx-fp." + q + ".weight": "mxfp4/32", "mlx-fp." + k + ".weight": "mxfp8/32"}), embed, q, k),
		modeltest.SafeTensors(modeltest.Tensor{Name: "norm.weight", DType: layout.F32, Shape: []int{1}, Data: make([]byte, 4)}))
	ollamaModelIs(t, "mixed", 6, "mlx-4bit", "mlx-fp")
	ollamaModel(t, "one", one)
	ollamaModelIs(t, "one", 1, "mlx-4bit")

	// The first file's type is that of no other file.
	ollamaModel(t, "untold", one, ollamaBlob(t, "mlx-4bit", "", q))
	m := open(t, "ollama://untold")
	x, err := m.Tensor("mlx-4bit." + q + ".weight")
	if err != nil || x.Problem() == nil {
		t.Errorf("%v", err)
	}
}

// ollamaModelIs checks the number of tensors of a model, and the values of those that fixtures have.
func ollamaModelIs(t *testing.T, name string, tensors int, fixtures ...string) {
	t.Helper()
	m := open(t, "ollama://"+name)
	if m.Len() != tensors {
		t.Errorf("%s: %d tensors", name, m.Len())
	}
	found := 0
	for _, fixture := range fixtures {
		want, err := loader.Open(filepath.Join("../testdata/quantized", fixture, "expected.safetensors"), nil)
		modeltest.Opened(t, want, err)
		for y := range want.Tensors() {
			x, err := m.Tensor(fixture + "." + y.Name())
			if err != nil {
				continue
			}
			a, err := x.Float32s()
			b, err2 := y.Float32s()
			if err != nil || err2 != nil || !slices.Equal(a, b) || !slices.Equal(x.Shape(), y.Shape()) {
				t.Errorf("%s: %v %v, %v, %v", x.Name(), x.Shape(), y.Shape(), err, err2)
			}
			found++
		}
	}
	if found == 0 {
		t.Errorf("%s: no weights", name)
	}
}

// TestOllamaTwice: what is called data has the name that its layer gives it, and nothing else in the file may have that.
func TestOllamaTwice(t *testing.T) {
	byteOf := func(name string, value byte) modeltest.Tensor {
		return modeltest.Tensor{Name: name, DType: layout.U8, Shape: []int{1}, Data: []byte{value}}
	}
	ollamaModel(t, "once", modeltest.SafeTensors(byteOf("data", 1), byteOf("other", 2)))
	x, err := open(t, "ollama://once").Tensor("0")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := x.Bytes(); err != nil || b[0] != 1 {
		t.Errorf("%v, %v", b, err)
	}
	ollamaModel(t, "twice", modeltest.SafeTensors(byteOf("data", 1), byteOf("0", 2)))
	if m, err := remote.Open(t.Context(), "ollama://twice", nil); !errors.Is(err, layout.ErrDuplicate) || !strings.Contains(err.Error(), `"0"`) {
		t.Errorf("%v", err)
		if err == nil {
			m.Close()
		}
	}
}

// TestOllamaSplit: the parts of a GGUF split, as several layers in any order, are one model.
func TestOllamaSplit(t *testing.T) {
	hubtest.New(t, nil) // for an empty cache
	var parts [][]byte
	for _, i := range []int{2, 0, 1} {
		b, err := os.ReadFile(fmt.Sprintf("../testdata/gguf/split-%05d-of-00003.gguf", i+1))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, b)
	}
	want, err := loader.Open("../testdata/gguf/split-00001-of-00003.gguf", nil)
	modeltest.Opened(t, want, err)
	ollamaLayers(t, "split", "model", append(parts, parts[1])...) // a layer may come twice
	m := open(t, "ollama://split")
	if m.Len() != want.Len() || m.Len() == 0 {
		t.Errorf("%d tensors, not %d", m.Len(), want.Len())
	}
	for x := range want.Tensors() {
		a, err := x.Bytes()
		if err != nil || !slices.Equal(a, bytesOf(t, m, x.Name())) {
			t.Errorf("%s: %v", x.Name(), err)
		}
	}
	ollamaLayers(t, "two", "model", parts[:2]...)
	if _, err := remote.Open(t.Context(), "ollama://two", nil); err == nil || !strings.Contains(err.Error(), "shard 2 of 3") {
		t.Error(err)
	}
	whole, err := os.ReadFile("../testdata/gguf/align256.gguf")
	if err != nil {
		t.Fatal(err)
	}
	ollamaLayers(t, "beside", "model", whole, []byte("an importance matrix"))
	open(t, "ollama://beside")
}

// TestOllamaTakenName: no layer is left out because another has the name that it would get.
func TestOllamaTakenName(t *testing.T) {
	model := modeltest.SafeTensors(modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{1}, Data: []byte{1}})
	const license, file = "application/vnd.ollama.image.license", "application/vnd.ollama.image.json"
	second := []byte("a second license")
	r := newRegistry(t, layer{tensorLayer, "b", model}, layer{license, "", []byte("a license")},
		layer{file, "sha256-" + hubtest.Digest(second) + ".license", []byte("{}")}, layer{license, "", second})
	if err := refused(t, r.address("ollama")); err == nil || !strings.Contains(err.Error(), "two files called sha256-") {
		t.Error(err)
	}
}
