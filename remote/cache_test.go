package remote_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote"
)

func entries(t *testing.T) (list []remote.CacheEntry) {
	t.Helper()
	list, err := remote.Cache(nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A file that is no model does not stay, however it was asked for.
func TestNoModel(t *testing.T) {
	s := newSite(t, map[string][]byte{"/page": []byte("<!DOCTYPE html><title>Sign in</title>")})
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := remote.Pull(t.Context(), s.URL+"/page", nil); !errors.Is(err, layout.ErrFormat) {
		t.Error(err)
	}
	if _, err := remote.Open(t.Context(), s.URL+"/page", nil); !errors.Is(err, layout.ErrFormat) {
		t.Error(err)
	}
	if list := entries(t); len(list) > 0 {
		t.Errorf("kept %+v", list)
	}
}

// The cache tells what is there in part and whole, checks it, and gives up what was not used for long.
func TestCache(t *testing.T) {
	h := hubtest.New(t, sharded())
	s := newSite(t, map[string][]byte{"/old.safetensors": webModel(1), "/new.safetensors": webModel(2)})
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "a[b"))
	t.Setenv("HF_HUB_CACHE", filepath.Join(t.TempDir(), "c[d"))
	if list := entries(t); len(list) != 0 {
		t.Errorf("an empty cache has %v", list)
	}
	if _, err := remote.Pull(t.Context(), s.URL+"/old.safetensors", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Pull(t.Context(), s.URL+"/new.safetensors", nil); err != nil {
		t.Fatal(err)
	}
	m := open(t, "hf://org/model")
	want(t, m, h, "w1")
	m.Close()
	byName := make(map[string]remote.CacheEntry)
	for _, e := range entries(t) {
		for _, name := range e.Names {
			byName[filepath.Base(name)] = e
		}
	}
	w2 := byName["model-00003-of-00004.safetensors"]
	if w2.Complete() || w2.Have == 0 || w2.Have >= w2.Size || !strings.HasPrefix(w2.Names[0], "hf://org/model/") {
		t.Errorf("%+v", w2)
	}
	if old := byName["old.safetensors"]; !old.Complete() || old.Size < webBytes || old.Shared {
		t.Errorf("%+v", old)
	}
	if err := new(remote.CacheEntry).Check(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	w1 := byName["model-00002-of-00004.safetensors"]
	if !w1.Shared || !w1.Complete() || w1.Check(t.Context()) != nil {
		t.Errorf("%+v: %v", w1, w1.Check(t.Context()))
	}
	content, _ := os.ReadFile(w1.Path)
	content[len(content)-1] ^= 1
	os.Chmod(w1.Path, 0o666)
	os.WriteFile(w1.Path, content, 0o666)
	if err := w1.Check(t.Context()); !errors.Is(err, layout.ErrChecksum) || !strings.Contains(err.Error(), w1.Path) {
		t.Error(err)
	}

	// The oldest goes first.
	long := time.Now().Add(-time.Hour)
	lock := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "locks", filepath.Base(byName["old.safetensors"].Path)+".lock")
	if err := os.Chtimes(lock, long, long); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, e := range entries(t) {
		if !e.Shared {
			total += e.Disk
		}
	}
	p, err := remote.PruneCache(total-1, nil)
	if err != nil || len(p.Removed) != 1 || p.Removed[0].Path != byName["old.safetensors"].Path || p.Left >= total {
		t.Errorf("%+v, %v", p, err)
	}
	// What is open stays.
	open(t, s.URL+"/new.safetensors")
	m = open(t, "hf://org/model")
	if p, err = remote.PruneCache(0, nil); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && (len(p.Held) < 4 || len(p.Removed) > 1) {
		t.Errorf("held %d, removed %v", len(p.Held), p.Removed)
	}
	want(t, m, h, "w2")
	m.Close()
	if p, err = remote.PruneCache(0, nil); err != nil || runtime.GOOS == "linux" && len(p.Removed) < 2 {
		t.Errorf("%+v, %v", p, err)
	}
	// What a process that was killed had begun goes, once nobody can be about it.
	left := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "locks", "pin.0123abcd.new")
	for age, gone := range map[time.Duration]bool{time.Minute: false, 2 * time.Hour: true} {
		began := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(left, nil, 0o666), os.Chtimes(left, began, began)); err != nil {
			t.Fatal(err)
		}
		_, err := remote.PruneCache(1<<40, nil)
		if _, missing := os.Lstat(left); err != nil || errors.Is(missing, fs.ErrNotExist) != gone {
			t.Errorf("begun %v ago: %v, %v", age, missing, err)
		}
	}
	want(t, open(t, "hf://org/model"), h, "w2", "w3")
	for _, e := range entries(t) {
		if e.Shared != strings.Contains(e.Path, "models--") && e.Complete() {
			t.Errorf("%+v", e)
		}
	}
}
