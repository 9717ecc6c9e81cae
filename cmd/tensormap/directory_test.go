package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// TestDirectory: where verbs take a file, they take a directory with one model in it.
func TestDirectory(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "snapshot")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(modeltest.Small(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "model.safetensors")
	for path, text := range map[string]string{
		file:                                  string(b),
		filepath.Join(dir, "config.json"):     `{"model_type":"inside"}`,
		filepath.Join(parent, "config.json"):  `{"model_type":"outside"}`,
		filepath.Join(dir, "other.gguf.part"): "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, verb := range []string{"inspect", "hash"} {
		if got, want := done(t, verb, dir), done(t, verb, file); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", verb, got, want)
		}
	}
	out := filepath.Join(parent, "out.apr")
	done(t, "convert", dir, out)
	if md := done(t, "inspect", out, "--metadata"); !strings.Contains(md, "inside") || strings.Contains(md, "outside") {
		t.Error(md)
	}
	done(t, "verify", dir)
	done(t, "diff", dir, out)
	tensormap("convert", dir, file).failsWith(t, "is the file that is being read")
	if err := os.WriteFile(filepath.Join(dir, "model.gguf"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	tensormap("inspect", dir).failsWith(t, dir+": is a directory with 2 models in it, to be opened by their own paths: model.gguf, model.safetensors")
}
