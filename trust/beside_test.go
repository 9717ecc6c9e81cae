package trust_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// TestBesideEncrypted reads the plain configuration beside an encrypted model. A Trust holds for it all the same.
func TestBesideEncrypted(t *testing.T) {
	dir := t.TempDir()
	model, err := os.ReadFile("../testdata/trust/encrypted.apr")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "m.apr")
	for name, b := range map[string][]byte{"m.apr": model, "tokenizer.json": []byte(`{}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	secret := fixtureSecret(t)
	for _, trusted := range []bool{false, true} {
		opts := &loader.Options{Key: trust.Always(secret)}
		if trusted {
			public, err := trust.ReadPublicKey("../testdata/trust/encrypted.pub.pem")
			if err != nil {
				t.Fatal(err)
			}
			opts.Trust = embedded(t, public)
		}
		m, err := loader.Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.ReadBeside(t.Context(), "tokenizer.json", 100)
		if !trusted && (err != nil || string(b) != `{}`) || trusted && !errors.Is(err, trust.ErrUnsigned) {
			t.Errorf("trusted %v: %q, %v", trusted, b, err)
		}
		m.Close()
	}
}
