package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/trust"
)

func TestHubModel(t *testing.T) {
	values := make([]float32, 1200)
	for i := range values {
		values[i] = float32(i) + 0.5
	}
	h := hubtest.New(t, map[string][]byte{
		"model.safetensors": modeltest.SafeTensors(modeltest.Tensor{Name: "x", DType: layout.F32, Shape: []int{2, 600}, Data: modeltest.Float32s(values...)}),
		"config.json":       []byte(`{"model_type": "bert"}`),
		"README.md":         []byte("# x"),
	})
	if out := done(t, "inspect", "hf://org/model"); !strings.Contains(out, "2×600") {
		t.Error(out)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if out := done(t, "pull", h.URL+"/org/model", "-o", dir); out != dir+"\n" {
		t.Error(out)
	}
	for _, name := range []string{"model.safetensors", "config.json"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, h.Files[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	converted := filepath.Join(t.TempDir(), "out.apr")
	done(t, "convert", "hf://org/model", converted)
	if out := done(t, "inspect", converted, "--metadata"); !strings.Contains(out, "bert") {
		t.Errorf("config.json was not carried along: %s", out)
	}
	h.Take()
	t.Setenv("HF_HUB_OFFLINE", "1")
	snapshot := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--model", "snapshots", h.Commit)
	if out := done(t, "pull", "hf://org/model/model.safetensors"); out != filepath.Join(snapshot, "model.safetensors")+"\n" {
		t.Error(out)
	}
	if out := done(t, "dump", "hf://org/model", "x[0,:3]"); out != string(modeltest.Float32s(0.5, 1.5, 2.5)) {
		t.Error(out)
	}
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked offline: %v", requests)
	}
	for _, args := range [][]string{{"pull", "model"}, {"pull", "--no-cache", "hf://org/model"}, {"inspect", "--no-cache", "model.gguf"}} {
		if r := tensormap(args...); r.status != exitUsage {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// A filter takes a part of a model: to the cache, or to a file.
func TestHubFilter(t *testing.T) {
	const n = 1 << 20
	big := func(name string, seed byte) modeltest.Tensor {
		return modeltest.Tensor{Name: name, DType: layout.U8, Shape: []int{n}, Data: bytes.Repeat([]byte{seed, 2, 3, seed}, n/4)}
	}
	h := hubtest.New(t, map[string][]byte{"model.safetensors": modeltest.SafeTensors(big("a.0", 1), big("a.1", 2), big("b.0", 3), big("b.1", 4))})
	if out := done(t, "pull", "hf://org/model", "--filter", "b.*"); out != "hf://org/model\n" {
		t.Error(out)
	}
	var sent int64
	for _, r := range h.Take() {
		sent += r.Bytes
	}
	if sent > 3*n {
		t.Errorf("%d bytes for two tensors of %d", sent, n)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	out := filepath.Join(t.TempDir(), "part.safetensors")
	done(t, "convert", "hf://org/model", out, "--filter", "b.*")
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked offline: %v", requests)
	}
	if names := strings.Fields(done(t, "inspect", out, "--json")); !strings.Contains(strings.Join(names, " "), `"b.1"`) || strings.Contains(strings.Join(names, " "), `"a.0"`) {
		t.Error(names)
	}
	if got, err := os.ReadFile(out); err != nil || len(got) > 2*n+1000 || !bytes.Contains(got, bytes.Repeat([]byte{4, 2, 3, 4}, n/4)) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	for _, args := range [][]string{{"pull", "hf://org/model", "--filter", "c.*"}, {"convert", "hf://org/model", out, "--filter", "c.*"}} {
		if r := tensormap(args...); r.status != exitFailed || !strings.Contains(r.stderr, "no tensor matches") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := tensormap("pull", "hf://org/model", "--filter", "b.*", "-o", t.TempDir()); r.status != exitUsage {
		t.Errorf("%+v", r)
	}
}

// TestPulledFolders compares files of one plain name in two folders, one of which has the other's content.
func TestPulledFolders(t *testing.T) {
	dir := t.TempDir()
	names := []string{"config.json", "text/config.json"}
	files := []string{filepath.Join(dir, "config.json"), filepath.Join(dir, "text", "config.json")}
	if err := os.Mkdir(filepath.Join(dir, "text"), 0o777); err != nil {
		t.Fatal(err)
	}
	by, err := trust.NewFileDigests(map[string]string{
		"config.json":      "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", // printf '{}' | sha256sum
		"text/config.json": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", // printf '[]' | sha256sum
	})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(first, second string) error {
		t.Helper()
		for i, text := range []string{first, second} {
			if err := os.WriteFile(files[i], []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		return verifyFiles(t.Context(), files, names, by)
	}
	if err := verify("{}", "[]"); err != nil {
		t.Error(err)
	}
	if err := verify("{}", "{}"); !errors.Is(err, layout.ErrChecksum) {
		t.Errorf("a file passes for another: %v", err)
	}
}
