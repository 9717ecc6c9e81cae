package peers

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	gcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/ollama/ollama/auth"
	"github.com/ollama/ollama/manifest"
	"github.com/ollama/ollama/types/model"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	tensors "github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
	"golang.org/x/crypto/ssh"
)

const ollama = "application/vnd.ollama.image."

// ollamaModel writes a model to Ollama's store by Ollama's own code. The layers' names are those of
// tensors and configuration.
func ollamaModel(t *testing.T, called string, layers ...layer) {
	t.Helper()
	var made []manifest.Layer
	for _, l := range layers {
		m, err := manifest.NewLayer(bytes.NewReader(l.content), l.mediaType)
		if err != nil {
			t.Fatal(err)
		}
		m.Name = l.name
		made = append(made, m)
	}
	config, err := manifest.NewLayer(strings.NewReader(`{"model_format": "gguf"}`), "application/vnd.docker.container.image.v1+json")
	if err != nil {
		t.Fatal(err)
	}
	if err := manifest.WriteManifest(model.ParseName(called), config, made); err != nil {
		t.Fatal(err)
	}
}

// upload sends a model of Ollama's store to a registry, as ollama push does: blobs, then the
// manifest's text.
func upload(t *testing.T, r *registryServer, called string) {
	t.Helper()
	n := model.ParseName(called)
	m, err := manifest.ParseNamedManifest(n)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := name.NewRepository(r.host+"/"+n.DisplayNamespaceModel(), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(m.Layers, m.Config) {
		f, err := l.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := gcr.WriteLayer(repo, static.NewLayer(content, types.MediaType(l.MediaType))); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.MarshalIndent(m, "", "  ") // other bytes than Ollama keeps
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPut, "http://"+r.host+"/v2/"+n.DisplayNamespaceModel()+"/manifests/"+n.Tag, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", m.MediaType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
}

// store returns all files of Ollama's store with their content.
func store(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	root := os.Getenv("OLLAMA_MODELS")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		files[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A store as Ollama lays it out opens without a request, mapped.
func TestOllamaStore(t *testing.T) {
	environment(t)
	t.Setenv("HF_HUB_OFFLINE", "1")
	ollamaModel(t, "tiny", layer{mediaType: ollama + "model", content: fixture(t, "gguf/v3.gguf")},
		layer{mediaType: ollama + "template", content: []byte("{{ .Prompt }}")},
		layer{mediaType: ollama + "license", content: []byte("MIT")}, layer{mediaType: ollama + "license", content: []byte("other")})
	ollamaModel(t, "127.0.0.1:1/people/tiny:1b", layer{mediaType: ollama + "model", content: fixture(t, "gguf/llama.gguf")})
	for _, address := range []string{"ollama://tiny", "ollama://tiny:latest", "ollama://library/tiny", "ollama://registry.ollama.ai/library/tiny:latest",
		"ollama://127.0.0.1:1/people/tiny:1b"} {
		m := open(t, address)
		if m.Len() == 0 {
			t.Errorf("%s: no tensors", address)
		}
		for tensor := range m.Tensors() {
			if !tensor.ZeroCopy() {
				t.Errorf("%s: %s is not mapped", address, tensor.Name())
			}
			break
		}
	}
	for _, address := range []string{"ollama://", "ollama://a/b/c/d", "ollama://../tiny", "ollama://tiny:..", "ollama://a.b/tiny", "ollama://tiny:"} {
		if _, err := remote.Open(t.Context(), address, nil); err == nil || !strings.Contains(err.Error(), "NAME[:TAG]") {
			t.Errorf("%s: %v", address, err)
		}
	}
	kept := filepath.Join(os.Getenv("OLLAMA_MODELS"), "manifests", "registry.ollama.ai", "library", "tiny", "evil")
	if err := os.WriteFile(kept, []byte(`{"layers": [{"mediaType": "`+ollama+`model", "digest": "sha256-../../evil", "size": 1}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Open(t.Context(), "ollama://tiny:evil", nil); err == nil || !strings.Contains(err.Error(), "cannot be") {
		t.Error(err)
	}
}

// Pull leaves the store as Ollama would, and Ollama's code reads it.
func TestOllamaPull(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	called := r.host + "/people/tiny:1b"
	data := weights("w", bytesOf(size, 5))
	ollamaModel(t, called, layer{mediaType: ollama + "model", content: data},
		layer{mediaType: ollama + "template", content: []byte("{{ .Prompt }}")}, layer{mediaType: ollama + "params", content: []byte(`{"stop": ["x"]}`)})
	upload(t, r, called)
	wrote := store(t)
	manifestPath := filepath.Join("manifests", filepath.FromSlash(strings.ReplaceAll(called, ":1b", "/1b")))
	wrote[manifestPath] = strings.TrimSpace(wrote[manifestPath]) // ollama create ends it with a newline, ollama pull does not

	t.Setenv("OLLAMA_MODELS", t.TempDir())
	r.Take()
	m := open(t, "ollama://"+called)
	row, err := m.Tensor("w")
	if err != nil {
		t.Fatal(err)
	}
	if err := row.DequantizeRows(make([]float32, 1024), 3000, 1); err != nil {
		t.Fatal(err)
	}
	m.Close()
	if blobs, others, sent := count(r.Take()); blobs > 2 || others != 1 || sent > 400<<10 {
		t.Errorf("a row took %d requests for layers, %d others and %d bytes", blobs, others, sent)
	}
	if files := store(t); len(files) > 0 {
		t.Errorf("the store has parts of a model")
	}
	pulled, err := remote.Pull(t.Context(), "ollama://"+called, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(pulled.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("pulled to %s: %v", pulled.Path, err)
	}
	files := store(t)
	for path, content := range wrote {
		if files[path] != content {
			t.Errorf("%s: %.200q, Ollama has %.200q", path, files[path], content)
		}
		delete(files, path)
	}
	if len(files) > 0 {
		t.Errorf("left %v beside what Ollama writes", files)
	}
	read, err := manifest.ParseNamedManifest(model.ParseName(called))
	if err != nil || len(read.Layers) != 3 {
		t.Fatal(read, err)
	}
	r.Take()
	if tensor, _ := open(t, "ollama://"+called).Tensor("w"); !tensor.ZeroCopy() {
		t.Error("a complete model is not mapped")
	}
	if requests := r.Take(); len(requests) > 0 {
		t.Errorf("asked for what the store has: %v", requests)
	}
}

// Layers of tensors are a model with these names, whatever their files call them.
func TestOllamaTensors(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	one, two, three := bytesOf(1<<20, 1), bytesOf(2<<20, 2), bytesOf(3<<20, 3)
	packed := modeltest.SafeTensors(
		modeltest.Tensor{Name: "b.0", DType: tensors.U8, Shape: []int{len(two)}, Data: two},
		modeltest.Tensor{Name: "b.1", DType: tensors.U8, Shape: []int{len(three)}, Data: three})
	config := layer{ollama + "json", "config.json", []byte(`{"hidden_size": 64}`)}
	for kind, layers := range map[string][]layer{
		"named": {config, {ollama + "tensor", "a", weights("a", one)}, {ollama + "tensor", "b", packed}},
		"older": {config, {ollama + "tensor", "a", weights("data", one)}, {ollama + "tensor", "b.0", weights("data", two)}, {ollama + "tensor", "b.1", weights("data", three)}},
	} {
		for _, local := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/local=%v", kind, local), func(t *testing.T) {
				t.Setenv("OLLAMA_MODELS", t.TempDir())
				t.Setenv("XDG_CACHE_HOME", t.TempDir())
				called := r.host + "/people/" + kind + ":v1"
				ollamaModel(t, called, layers...)
				upload(t, r, called)
				if !local {
					t.Setenv("OLLAMA_MODELS", t.TempDir())
				}
				r.Take()
				m := open(t, "ollama://"+called)
				want(t, m, "a", one)
				want(t, m, "b.0", two)
				want(t, m, "b.1", three)
				configured(t, m)
				m.Close()
				if requests := r.Take(); local && len(requests) > 0 {
					t.Errorf("asked for what the store has: %v", requests)
				}
				pulled, err := remote.Pull(t.Context(), "ollama://"+called, nil)
				if err != nil {
					t.Fatal(err)
				}
				again, err := loader.Open(pulled.Path, nil)
				modeltest.Opened(t, again, err)
				want(t, again, "b.1", three)
				names := slices.Collect(func(yield func(string) bool) {
					for tensor := range again.Tensors() {
						if !yield(tensor.Name()) {
							return
						}
					}
				})
				slices.Sort(names)
				if !slices.Equal(names, []string{"a", "b.0", "b.1"}) {
					t.Errorf("tensors %q", names)
				}
				read, err := manifest.ParseNamedManifest(model.ParseName(called))
				if err != nil {
					t.Fatal(err)
				}
				for i, l := range append(read.Layers, read.Config) {
					f, err := l.Open()
					if err != nil {
						t.Fatal(err)
					}
					content, _ := io.ReadAll(f)
					f.Close()
					if i < len(layers) && !bytes.Equal(content, layers[i].content) {
						t.Errorf("layer %d has other bytes in the store", i)
					}
				}
			})
		}
	}
}

// A tensor that is kept under its own name is compared with the digest of the layer.
func TestOllamaWrongTensor(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	content := weights("data", bytesOf(1<<20, 1))
	ollamaModel(t, r.host+"/people/older:v1", layer{ollama + "tensor", "a", content})
	upload(t, r, r.host+"/people/older:v1")
	t.Setenv("OLLAMA_MODELS", t.TempDir())
	m := open(t, "ollama://"+r.lying(t, content, len(content)/2)+"/people/older:v1")
	tensor, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tensor.Bytes(); err != nil {
		t.Fatal(err)
	}
	m.Close()
	for _, dir := range []string{filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "blobs"), filepath.Join(os.Getenv("OLLAMA_MODELS"), "blobs")} {
		if blobs, _ := os.ReadDir(dir); len(blobs) > 0 {
			t.Errorf("%s: %v stay", dir, blobs)
		}
	}
}

// A model that is not public is asked for with the signature that Ollama's code makes.
func TestOllamaPrivate(t *testing.T) {
	environment(t)
	r := startRegistry(t, nil)
	data := bytesOf(1<<20, 1)
	ollamaModel(t, r.host+"/people/own:v1", layer{mediaType: ollama + "model", content: weights("w", data)})
	upload(t, r, r.host+"/people/own:v1")
	t.Setenv("OLLAMA_MODELS", t.TempDir())
	var front *httptest.Server
	front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == "/token":
			sum := sha256.Sum256(nil)
			signed, err := auth.Sign(req.Context(), fmt.Appendf(nil, "GET,%s,%s", front.URL+req.URL.String(), base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(sum[:])))))
			if q := req.URL.Query(); err != nil || req.Header.Get("Authorization") != signed || q.Get("ts") == "" || q.Get("nonce") == "" || q.Get("scope") != "repository:people/own:pull" {
				http.Error(w, "who is it?", http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, `{"token": "good"}`)
		case req.Header.Get("Authorization") != "Bearer good":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+front.URL+`/token",service="registry",scope="repository:people/own:pull"`)
			http.Error(w, "denied", http.StatusUnauthorized)
		default:
			(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: r.host}) }}).ServeHTTP(w, req)
		}
	}))
	t.Cleanup(front.Close)
	address := "ollama://" + strings.TrimPrefix(front.URL, "http://") + "/people/own:v1"
	if _, err := remote.Open(t.Context(), address, nil); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "id_ed25519") {
		t.Error(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(os.Getenv("HOME"), ".ollama")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "id_ed25519"), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, open(t, address), "w", data)
}
