package trust_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// TestFileDigests opens a model by its digest in each form, and models that have another one.
func TestFileDigests(t *testing.T) {
	const path = "../testdata/trust/model/model.safetensors"
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(good)
	digest := hex.EncodeToString(sum[:])
	const git = "15f0ec43b65f0a42d7879777a4b78989dbe599dc" // by git hash-object
	open := func(path string, digests map[string]string) (*loader.Model, error) {
		d, err := trust.NewFileDigests(digests)
		if err != nil {
			t.Fatal(err)
		}
		return loader.Open(path, &loader.Options{Trust: d})
	}
	for _, digests := range []map[string]string{
		{"model.safetensors": "sha256:" + digest}, {"": digest}, {"": git}, {"other": git, "model.safetensors": digest},
	} {
		m, err := open(path, digests)
		if err != nil {
			t.Errorf("%v: %v", digests, err)
			continue
		}
		if s := m.Stats(); m.Granularity() != layout.ByFile || s.VerifiedBytes != uint64(len(good)) {
			t.Errorf("granularity %v, %d bytes verified", m.Granularity(), s.VerifiedBytes)
		}
		if err := m.VerifyTrust(t.Context(), nil); err != nil {
			t.Error(err)
		}
		m.Close()
	}
	bad := filepath.Join(t.TempDir(), "model.safetensors")
	for what, content := range map[string][]byte{
		"changed": append(append([]byte{}, good[:len(good)-1]...), good[len(good)-1]^1), "cut": good[:len(good)-1], "longer": append(good[:len(good):len(good)], 0), "empty": {},
	} {
		if err := os.WriteFile(bad, content, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{digest, git} {
			if _, err := open(bad, map[string]string{"": d}); !errors.Is(err, layout.ErrChecksum) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	empty, err := trust.NewFileDigests(map[string]string{"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}) // of sha256sum
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := loader.VerifyFile(t.Context(), bad, empty); err != nil {
		t.Errorf("an empty file that was meant to be: %v", err)
	}
	if _, err := open(path, map[string]string{"other": digest}); !errors.Is(err, trust.ErrUnsigned) {
		t.Error(err)
	}
	if _, err := trust.NewFileDigests(map[string]string{"": "md5:00"}); !errors.Is(err, trust.ErrKey) {
		t.Error(err)
	}
}
