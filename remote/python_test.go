package remote_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

// python runs a program that uses huggingface_hub, the Hub's own client.
func python(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(os.Getenv("PYTHON_HUB"), append([]string{"-c", program}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

const download = `
import sys
from huggingface_hub import snapshot_download
print(snapshot_download("org/model", ignore_patterns=["README.md", "onnx/*", "*fp16*"]))
`

// TestHuggingFaceHub: huggingface_hub uses what Pull left without a download, and Open what
// huggingface_hub left. PYTHON_HUB names a Python that has it.
func TestHuggingFaceHub(t *testing.T) {
	if python := os.Getenv("PYTHON_HUB"); python == "" || exec.Command(python, "-c", "import huggingface_hub").Run() != nil {
		t.Skip("PYTHON_HUB names no Python with huggingface_hub")
	}
	t.Run("finds what Pull left", func(t *testing.T) {
		h := hubtest.New(t, sharded())
		pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Take()
		if got := python(t, download); got != pulled.Path {
			t.Errorf("%s, pulled to %s", got, pulled.Path)
		}
		if _, files, cdn, sent := count(h.Take()); sent > 0 {
			t.Errorf("%d + %d requests for files, %d bytes", files, cdn, sent)
		}
		t.Setenv("HF_HUB_OFFLINE", "1")
		if got := python(t, `
from huggingface_hub import hf_hub_download
print(hf_hub_download("org/model", "model-00003-of-00004.safetensors"))
`); got != pulled.Path+"/model-00003-of-00004.safetensors" {
			t.Errorf("offline %s", got)
		}
		if requests := h.Take(); len(requests) > 0 {
			t.Errorf("asked offline: %v", requests)
		}
	})
	t.Run("takes it offline", func(t *testing.T) {
		hubtest.New(t, sharded())
		pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("HF_HUB_OFFLINE", "1")
		if got := python(t, `
from huggingface_hub import snapshot_download
print(snapshot_download("org/model"))
`); got != pulled.Path { // which has no README.md
			t.Errorf("%s, pulled to %s", got, pulled.Path)
		}
	})
	t.Run("left it to Open", func(t *testing.T) {
		h := hubtest.New(t, sharded())
		path := python(t, download)
		h.Take()
		m := open(t, "hf://org/model")
		want(t, m, h, "w0", "w1", "w2", "w3")
		if !strings.HasPrefix(m.Path(), path) {
			t.Errorf("opened %s, not in %s", m.Path(), path)
		}
		if _, files, cdn, _ := count(h.Take()); files+cdn > 0 {
			t.Errorf("%d requests for files", files+cdn)
		}
		if pulled, err := remote.Pull(t.Context(), "hf://org/model", nil); err != nil || pulled.Path != path {
			t.Errorf("%v %v", pulled, err)
		}
		if _, files, cdn, _ := count(h.Take()); files+cdn > 0 {
			t.Errorf("%d requests for files", files+cdn)
		}
		local, err := loader.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		local.Close()
	})
}
