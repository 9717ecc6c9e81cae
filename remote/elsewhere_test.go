package remote_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/internal/hubtest"
	"github.com/tensormap/tensormap/remote"
)

// What Ollama's store has complete is not fetched from the Hub: it is read there, and pulled from there.
func TestElsewhere(t *testing.T) {
	h := hubtest.New(t, sharded())
	store := t.TempDir()
	t.Setenv("OLLAMA_MODELS", store)
	content := h.Files["model-00002-of-00004.safetensors"]
	blob := filepath.Join(store, "blobs", "sha256-"+hubtest.Digest(content))
	if err := os.MkdirAll(filepath.Dir(blob), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob, content, 0o666); err != nil {
		t.Fatal(err)
	}
	m := open(t, "hf://org/model")
	h.Take()
	want(t, m, h, "w1")
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked: %v", requests)
	}
	m.Close()
	<-m.Done()
	pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, sent := count(h.Take()); sent > 3*shardBytes+1<<20 {
		t.Errorf("%d bytes came", sent)
	}
	if got, err := os.ReadFile(filepath.Join(pulled.Path, "model-00002-of-00004.safetensors")); err != nil || string(got) != string(content) {
		t.Error(err)
	}
	if _, err := os.Stat(blob); err != nil {
		t.Error(err)
	}
}
