package loader_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/internal/test/fuzz"
)

// FuzzOpenBytes does everything with whatever opens. Errors are fine, panics are not.
func FuzzOpenBytes(f *testing.F) {
	err := filepath.WalkDir("../testdata", func(path string, e fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".apr", ".april", ".b2l", ".gguf", ".safetensors", ".tsm":
			b, err := os.ReadFile(path)
			f.Add(b)
			return err
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := fuzz.Open(b); err != nil {
			t.Error(err)
		}
	})
}
