package remote_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

// pulledRepo returns a Hub whose model is in its cache, and the folder of the repository there.
func pulledRepo(t *testing.T) (h *hubtest.Hub, repository string) {
	t.Helper()
	h = hubtest.New(t, sharded())
	pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Take()
	return h, filepath.Dir(filepath.Dir(pulled.Path))
}

// A repository's model is chosen as a folder's: model.safetensors before its index, as transformers 4.57.6 does for both
// (modeling_utils.py, _get_resolved_checkpoint_files).
func TestChoosesAlike(t *testing.T) {
	files := sharded()
	files["model.safetensors"] = oneFile()
	hubtest.New(t, files)
	dir := t.TempDir()
	for name, b := range files {
		writeAt(t, filepath.Join(dir, filepath.FromSlash(name)), b)
	}
	for _, address := range []string{"hf://org/model", dir} {
		if m := open(t, address); filepath.Base(m.Path()) != "model.safetensors" || len(m.Files()) != 1 {
			t.Errorf("%s opens %s", address, m.Path())
		}
	}
	pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := open(t, pulled.Path); filepath.Base(m.Path()) != "model.safetensors" {
		t.Errorf("what was pulled opens %s", m.Path())
	}
}

// Weights that are in the cache alone do not hide the configuration beside them.
func TestConfigIsMissing(t *testing.T) {
	h := hubtest.New(t, map[string][]byte{"model.safetensors": oneFile(), "config.json": []byte(`{"hidden_size": 64}`)})
	if _, err := remote.Pull(t.Context(), "hf://org/model/model.safetensors", nil); err != nil {
		t.Fatal(err)
	}
	configure := func() (hidden int, err error) {
		m := open(t, "hf://org/model")
		defer m.Close()
		if !bytes.HasSuffix(h.Files["model.safetensors"], bytesOf(t, m, "b")) {
			t.Error("other bytes than the Hub's")
		}
		c, err := m.Config(t.Context())
		if err != nil {
			return 0, err
		}
		return c.Int("hidden_size")
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if _, err := configure(); err == nil || !strings.Contains(err.Error(), "offline") {
		t.Error(err)
	}
	for _, offline := range []string{"", "1"} {
		t.Setenv("HF_HUB_OFFLINE", offline)
		if n, err := configure(); n != 64 || err != nil {
			t.Errorf("offline=%s: hidden_size is %d: %v", offline, n, err)
		}
	}
}

// Offline a snapshot of an older huggingface_hub is what its links say: it has no listing.
func TestWithoutListing(t *testing.T) {
	h, repository := pulledRepo(t)
	for _, listings := range []string{filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap"), filepath.Join(repository, "trees")} {
		if err := os.RemoveAll(listings); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	for _, address := range []string{"hf://org/model", "hf://org/model@" + h.Commit, "hf://org/model/model.safetensors.index.json"} {
		want(t, open(t, address), h, "w1", "w3")
	}
	if _, err := remote.Open(t.Context(), "hf://org/model/model.fp16.safetensors", nil); err == nil {
		t.Error("what was not fetched opens")
	}
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked offline: %v", requests)
	}
}

// TestListingOfAnotherVersion: a cached listing that cannot be used leaves nothing in the one that is read in its place.
func TestListingOfAnotherVersion(t *testing.T) {
	h, repository := pulledRepo(t)
	listings, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "listings", "*"))
	if len(listings) != 1 {
		t.Fatal(listings)
	}
	tree := filepath.Join(repository, "trees", h.Commit+".json")
	if err := errors.Join(os.Mkdir(filepath.Dir(tree), 0o777), os.Rename(listings[0], tree),
		os.WriteFile(listings[0], []byte(`{"format_version":2,"files":{"../x":{}}}`), 0o666)); err != nil {
		t.Fatal(err)
	}
	want(t, open(t, "hf://org/model@"+h.Commit), h, "w1")
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("requests beside the listing of the Hub's cache: %v", requests)
	}
}

// A model opens without a home, too: complete, or by ranges.
func TestWithoutHome(t *testing.T) {
	h, _ := pulledRepo(t)
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData", "USERPROFILE"} {
		t.Setenv(name, "")
	}
	want(t, open(t, "hf://org/model"), h, "w1")
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	want(t, open(t, "hf://org/model"), h, "w1")
	if _, err := remote.Pull(t.Context(), "hf://org/model", nil); err == nil || !strings.Contains(err.Error(), "no cache") {
		t.Error(err)
	}
}

// linksBelow lists the links in a snapshot and its folders.
func linksBelow(t *testing.T, snapshot string) (links []string) {
	t.Helper()
	err := filepath.WalkDir(snapshot, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			links = append(links, path)
		}
		return err
	})
	if err != nil || len(links) == 0 {
		t.Fatal(err)
	}
	return links
}

// unlink puts the files of a snapshot in place of the links to them, as huggingface_hub 2.4.0 does without symbolic links
// (file_download.py, _create_symlink).
func unlink(t *testing.T, snapshot string) {
	t.Helper()
	for _, link := range linksBelow(t, snapshot) {
		blob, err := filepath.EvalSymlinks(link)
		if err == nil {
			err = os.Rename(blob, link)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Offline, a snapshot without links and without a listing has the files that are there: those of Windows, of cp -L, of hf-hub.
func TestWithoutLinksOffline(t *testing.T) {
	for _, copied := range []bool{false, true} { // cp -L leaves blobs, too
		h, repository := pulledRepo(t)
		snapshot := filepath.Join(repository, "snapshots", h.Commit)
		if copied {
			for _, link := range linksBelow(t, snapshot) {
				b, err := os.ReadFile(link)
				if err := errors.Join(err, os.Remove(link), os.WriteFile(link, b, 0o666)); err != nil {
					t.Fatal(err)
				}
			}
		} else {
			unlink(t, snapshot)
		}
		if err := os.RemoveAll(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HF_HUB_OFFLINE", "1")
		for _, address := range []string{"hf://org/model", "hf://org/model@" + h.Commit, "hf://org/model/model-00002-of-00004.safetensors"} {
			m := open(t, address)
			want(t, m, h, "w1")
			if c, err := m.Config(t.Context()); err != nil {
				t.Error(err)
			} else if n, err := c.Int("hidden_size"); n != 64 || err != nil {
				t.Errorf("%s: hidden_size is %d: %v", address, n, err)
			}
		}
		pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
		if err != nil || pulled.Path != snapshot {
			t.Errorf("%+v, %v", pulled, err)
		}
		if _, err := remote.Open(t.Context(), "hf://org/model/model.fp16.safetensors", nil); err == nil {
			t.Error("what was not fetched opens")
		}
		if requests := h.Take(); len(requests) > 0 {
			t.Errorf("asked offline: %v", requests)
		}
		t.Setenv("HF_HUB_OFFLINE", "")
	}
}

// Without symbolic links huggingface_hub leaves the files themselves in the snapshot.
func TestWithoutLinks(t *testing.T) {
	h, repository := pulledRepo(t)
	unlink(t, filepath.Join(repository, "snapshots", h.Commit))
	want(t, open(t, "hf://org/model"), h, "w0", "w2")
	if _, err := remote.Pull(t.Context(), "hf://org/model", nil); err != nil {
		t.Error(err)
	}
	if _, files, cdn, _ := count(h.Take()); files+cdn != 0 {
		t.Errorf("%d requests for files", files+cdn)
	}
	if blobs, _ := os.ReadDir(filepath.Join(repository, "blobs")); len(blobs) > 0 {
		t.Errorf("second copies: %v", blobs)
	}
}

// A name of a revision that cannot be a file beside others does not keep the model from opening.
func TestRevisionsCollide(t *testing.T) {
	h, repository := pulledRepo(t)
	refs := filepath.Join(repository, "refs")
	if err := os.WriteFile(filepath.Join(refs, "refs"), []byte(h.Commit), 0o666); err != nil { // as of a tag called refs
		t.Fatal(err)
	}
	want(t, open(t, "hf://org/model@refs%2Fpr%2F1"), h, "w0")
	if err := os.Remove(filepath.Join(refs, "main")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(refs, "main", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	want(t, open(t, "hf://org/model"), h, "w0")
}

// A blob that repositories share is a link. It is followed, listed and checked.
func TestSharedBlobs(t *testing.T) {
	h, repository := pulledRepo(t)
	shared := filepath.Join(filepath.Dir(repository), "blobs", "ab")
	if err := os.MkdirAll(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	weights := hubtest.Digest(h.Files["model-00002-of-00004.safetensors"])
	blob := filepath.Join(repository, "blobs", weights)
	if err := os.Rename(blob, filepath.Join(shared, "xet")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../blobs/ab/xet", blob); err != nil {
		t.Fatal(err)
	}
	want(t, open(t, "hf://org/model"), h, "w1")
	if _, files, cdn, _ := count(h.Take()); files+cdn != 0 {
		t.Errorf("%d requests for files", files+cdn)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if err := os.RemoveAll(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap")); err != nil { // with the listing
		t.Fatal(err)
	}
	want(t, open(t, "hf://org/model"), h, "w1")
	if _, err := remote.Pull(t.Context(), "hf://org/model", nil); err != nil {
		t.Error(err)
	}
	for _, e := range entries(t) {
		if filepath.Base(e.Path) == weights {
			if err := e.Check(t.Context()); err != nil || !e.Shared || len(e.Names) != 1 {
				t.Errorf("%+v: %v", e, err)
			}
			return
		}
	}
	t.Error("the cache does not list it")
}

// file:// is followed by a path, whose characters may be escaped.
func TestFileAddress(t *testing.T) {
	path := modeltest.Write(t, "a b%c.safetensors", oneFile())
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	escaped := strings.NewReplacer("%", "%25", " ", "%20").Replace(slashed)
	for _, address := range []string{path, "file://" + slashed, "FILE://" + escaped, "file://localhost" + escaped} {
		m, err := remote.Open(t.Context(), address, nil)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		local, err := loader.Open(path, nil)
		if modeltest.Opened(t, local, err); m.Path() != local.Path() {
			t.Errorf("%s opens %s", address, m.Path())
		}
		m.Close()
	}
}
