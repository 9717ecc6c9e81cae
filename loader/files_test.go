package loader_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

func fixtures(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"apr2/*.apr", "lz4/*.apr", "safetensors/*.safetensors"} {
		found, err := filepath.Glob(filepath.Join("..", "testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no fixtures %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// warmer is a model or a lease.
type warmer interface {
	Warm(ctx context.Context, names []string, opts *loader.WarmOptions) (loader.WarmResult, error)
}

// warmTensors warms tensors in the order in which they are stored.
func warmTensors(ctx context.Context, m warmer, names ...string) error {
	_, err := m.Warm(ctx, names, nil)
	return err
}

// evictAll releases the memory of all tensors.
func evictAll(m *loader.Model) error {
	var names []string
	for x := range m.Tensors() {
		names = append(names, x.Name())
	}
	return m.Evict(names...)
}

// encryptedFile returns an APR2 file, encrypted.
func encryptedFile(t *testing.T, encrypter *apr2.Encrypter, file []byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encrypted.apr")
	if _, err := convert.Write(t.Context(), openBytes(t, file, nil), path, &convert.Options{Encrypter: encrypter}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
