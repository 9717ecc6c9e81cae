package loader_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/loader"
)

// descriptors returns how many files at or below path the process has open.
func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, path) {
			n++
		}
	}
	return n
}

// TestShardIsMappedOnFirstTouch counts mappings and descriptors.
func TestShardIsMappedOnFirstTouch(t *testing.T) {
	dir := t.TempDir()
	path := writeShards(t, dir, nil, tensorsOf("three")...)
	m := openPath(t, path, nil)
	if n := mapped(t, filepath.Join(dir, "model-")); n != 0 {
		t.Errorf("%d shards mapped before anything is touched", n)
	}
	for i, name := range []string{"i8", "f32", "i8", "q4"} {
		x := tensor(t, m, name)
		x.ZeroCopy()
		if _, err := x.Bytes(); err != nil {
			t.Fatal(err)
		}
		if n, want := mapped(t, filepath.Join(dir, "model-")), []int{1, 2, 2, 3}[i]; n != want {
			t.Errorf("%d shards mapped after %s, want %d", n, name, want)
		}
	}
	if n := descriptors(t, dir); n > 1 { // the directory
		t.Errorf("%d descriptors", n)
	}
	m.Close()
	if maps, open := mapped(t, dir), descriptors(t, dir); maps != 0 || open != 0 {
		t.Errorf("after Close: %d mappings, %d descriptors", maps, open)
	}
}

// TestNoMapShards keeps descriptors only until Close, and maps nothing.
func TestNoMapShards(t *testing.T) {
	path := writeShards(t, t.TempDir(), nil, numbered(100, 18)...)
	dir := filepath.Dir(path)
	m := openPath(t, path, &loader.Options{NoMap: true})
	if n := descriptors(t, dir); n == 0 || n > 2 {
		t.Errorf("%d descriptors after opening", n)
	}
	for x := range m.Tensors() {
		if _, err := x.Bytes(); err != nil {
			t.Fatal(err)
		}
	}
	if n := descriptors(t, dir); n > 66 {
		t.Errorf("%d descriptors after reading", n)
	}
	if n := mapped(t, dir); n != 0 || m.Stats().MappedBytes != 0 {
		t.Errorf("%d mappings after reading, %+v", n, m.Stats())
	}
	if err := m.Close(); err != nil || descriptors(t, dir) != 0 {
		t.Errorf("after Close: %d descriptors, %v", descriptors(t, dir), err)
	}
}

// TestFailedOpenOfShardsLeavesNothing, whichever shard is the one that fails.
func TestFailedOpenOfShardsLeavesNothing(t *testing.T) {
	for _, file := range []string{"model-00001-of-00003.apr", "model-00003-of-00003.apr"} {
		for _, spoil := range []func(string) error{os.Remove, func(path string) error { return os.Truncate(path, 5) }} {
			dir := t.TempDir()
			path := writeShards(t, dir, nil, tensorsOf("three")...)
			if err := spoil(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			for _, w := range diskWays[:2] {
				if _, err := w.open(t, path, nil); err == nil {
					t.Errorf("%s opened", file)
				}
			}
			if maps, open := mapped(t, dir), descriptors(t, dir); maps != 0 || open != 0 {
				t.Errorf("%d mappings, %d descriptors", maps, open)
			}
		}
	}
}
