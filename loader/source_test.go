package loader_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestReadBeside reads config.json beside a model in every kind of place. In the Hugging Face
// cache it is a link that leads out of the snapshot.
func TestReadBeside(t *testing.T) {
	testmode.Symlinks(t)
	const config = `{"hidden_size": 384}`
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	for name, b := range map[string]string{"model.safetensors": string(modeltest.SafeTensors(modeltest.Random("x", layout.U8, 3))), "config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "1_Pooling"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "1_Pooling", "config.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(t.TempDir(), "model.safetensors")
	for _, name := range []string{"model.safetensors", "config.json", "1_Pooling"} {
		relative := filepath.Join("..", filepath.Base(dir), name) // WASI has no absolute links
		if err := os.Symlink(relative, filepath.Join(filepath.Dir(linked), name)); err != nil {
			t.Fatal(err)
		}
	}
	for where, m := range map[string]*loader.Model{
		"file":      openPath(t, path, nil),
		"NoMap":     openPath(t, path, &loader.Options{NoMap: true}),
		"directory": openPath(t, dir, nil),
		"link":      openPath(t, linked, nil),
		"remote":    newDistant(path, must(os.ReadFile(path))(t)).open(t, nil),
	} {
		if b, err := m.ReadBeside(t.Context(), "config.json", 100); err != nil || string(b) != config {
			t.Errorf("%s: %q, %v", where, b, err)
		}
		if b, err := m.ReadBeside(t.Context(), "config.json", 10); !errors.Is(err, loader.ErrTooLarge) || strings.Count(err.Error(), "config.json") != 1 {
			t.Errorf("%s, 10 bytes at most: %q, %v", where, b, err)
		}
		if b, err := m.ReadBeside(t.Context(), "1_Pooling/config.json", 100); err != nil || string(b) != "{}" {
			t.Errorf("%s, in a folder: %q, %v", where, b, err)
		}
		if b, err := m.ReadBeside(t.Context(), "tokenizer.json", 100); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, no such file: %q, %v", where, b, err)
		}
	}
	if _, err := openBytes(t, modeltest.APR2Model(t, nil, tensorsOf("three")...), nil).ReadBeside(t.Context(), "config.json", 100); !errors.Is(err, loader.ErrUnsupported) {
		t.Errorf("in memory: %v", err)
	}
}
