package remote_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// caches are empty caches of this test, and the folders that they are in.
type caches struct{ hub, own, ollama string }

func newCaches(t *testing.T) caches {
	base := t.TempDir()
	c := caches{filepath.Join(base, "hf", "hub"), filepath.Join(base, "xdg", "tensormap"), filepath.Join(base, "ollama")}
	for name, value := range map[string]string{
		"HF_HOME": filepath.Dir(c.hub), "XDG_CACHE_HOME": filepath.Dir(c.own), "OLLAMA_MODELS": c.ollama, "HOME": base,
	} {
		t.Setenv(name, value)
	}
	return c
}

// each calls use with what is in the caches, and empty removes all that.
func (c caches) each(use func(path string, e fs.DirEntry)) {
	for _, root := range []string{c.hub, c.own, c.ollama} {
		filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && path != root {
				use(path, e)
			}
			return nil
		})
	}
}

func (c caches) empty(t *testing.T) {
	t.Helper()
	for _, root := range []string{c.hub, c.own, c.ollama} {
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
	}
}

// openAndPull opens and pulls a model. Between the steps it calls between.
func openAndPull(ctx context.Context, address string, between func()) error {
	m, err := remote.Open(ctx, address, nil)
	if err == nil {
		between()
		err = m.Close()
		<-m.Done()
		between()
	}
	_, pulling := remote.Pull(ctx, address, nil)
	between()
	return errors.Join(err, pulling)
}

// smallModel has functions that start a server of a model of one small tensor, and return the model's address.
var smallModel = func() map[string]func(t *testing.T) (address string) {
	model := modeltest.SafeTensors(modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{1000}, Data: make([]byte, 1000)})
	return map[string]func(t *testing.T) string{
		"hub": func(t *testing.T) string {
			hubtest.New(t, map[string][]byte{"model.safetensors": model})
			return "hf://org/model"
		},
		"registry": func(t *testing.T) string {
			return newRegistry(t, layer{weightLayer, "model.safetensors", model}).address("oci")
		},
		"ollama": func(t *testing.T) string { return newRegistry(t, layer{tensorLayer, "b", model}).address("ollama") },
		"web": func(t *testing.T) string {
			return newSite(t, map[string][]byte{"/model.safetensors": model}).URL + "/model.safetensors"
		},
	}
}()

// TestPlantedLinks: whatever a cache writes, a link that somebody has planted in its place leads nobody to what it leads to, be
// it a file elsewhere, one of the cache, or a folder.
func TestPlantedLinks(t *testing.T) {
	for kind, start := range smallModel {
		t.Run(kind, func(t *testing.T) {
			address := start(t)
			c := newCaches(t)
			files, folders := map[string]bool{}, map[string]bool{}
			if err := openAndPull(t.Context(), address, func() {
				c.each(func(path string, e fs.DirEntry) {
					if e.IsDir() {
						folders[path] = true
					} else {
						files[path] = true
					}
				})
			}); err != nil {
				t.Fatal(err)
			}
			if len(files) < 5 || len(folders) < 2 {
				t.Fatal(files, folders)
			}
			mine := filepath.Join(t.TempDir(), "authorized_keys")
			plant := func(target, path string) {
				t.Helper()
				c.empty(t)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.Symlink(target, path)); err != nil {
					t.Skip(err)
				}
			}
			for path := range files {
				beside := filepath.Join(filepath.Dir(path), "mine") // to which os.Root follows the second link, which is relative
				for link, target := range map[string]string{mine: mine, "mine": beside} {
					plant(link, path)
					if err := os.WriteFile(target, []byte("mine"), 0o600); err != nil {
						t.Fatal(err)
					}
					err := openAndPull(t.Context(), address, func() {})
					if text, _ := os.ReadFile(target); string(text) != "mine" {
						t.Errorf("%s: a link to %s was followed", path, target)
					}
					if strings.HasSuffix(path, ".data") && (!errors.Is(err, rooted.ErrLink) || !strings.Contains(err.Error(), path)) {
						t.Errorf("%s: %v", path, err)
					}
				}
			}
			for path := range folders {
				elsewhere := t.TempDir()
				plant(elsewhere, path)
				openAndPull(t.Context(), address, func() {})
				if entries, _ := os.ReadDir(elsewhere); len(entries) > 0 {
					t.Errorf("%s: a link to a folder was followed, where %s is now", path, entries[0].Name())
				}
			}
		})
	}
}
