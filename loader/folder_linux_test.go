package loader_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/loader"
)

// descriptors is how many files the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestShardIsMappedOnFirstTouch counts mappings and descriptors.
func TestShardIsMappedOnFirstTouch(t *testing.T) {
	before := descriptors(t)
	dir := t.TempDir()
	path := put(t, dir, nil, apart(three())...)
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
	if n := descriptors(t); n > before+1 { // the directory
		t.Errorf("%d descriptors, %d before", n, before)
	}
	m.Close()
	if n := mapped(t, dir); n != 0 || descriptors(t) != before {
		t.Errorf("after Close: %d mappings, %d descriptors, %d before", n, descriptors(t), before)
	}
}

// TestNoMapShards keeps descriptors only until Close.
func TestNoMapShards(t *testing.T) {
	path := manyShards(t, 100)
	before := descriptors(t)
	m := openPath(t, path, &loader.Options{NoMap: true})
	if n := descriptors(t); n > before+2 {
		t.Errorf("%d descriptors after opening, %d before", n, before)
	}
	for x := range m.Tensors() {
		if _, err := x.Bytes(); err != nil {
			t.Fatal(err)
		}
	}
	if n := descriptors(t); n > before+66 {
		t.Errorf("%d descriptors after reading, %d before", n, before)
	}
	if err := m.Close(); err != nil || descriptors(t) != before {
		t.Errorf("after Close: %d descriptors, %d before, %v", descriptors(t), before, err)
	}
}

// TestFailedOpenOfShardsLeavesNothing, whichever shard is the one that fails.
func TestFailedOpenOfShardsLeavesNothing(t *testing.T) {
	before := descriptors(t)
	for _, file := range []string{"model-00001-of-00003.apr", "model-00003-of-00003.apr"} {
		for _, spoil := range []func(string) error{os.Remove, func(path string) error { return os.Truncate(path, 5) }} {
			dir := t.TempDir()
			path := put(t, dir, nil, apart(three())...)
			if err := spoil(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			for _, w := range fromDisk()[:2] {
				if _, err := w.open(path); err == nil {
					t.Errorf("%s opened", file)
				}
			}
			if n := mapped(t, dir); n != 0 || descriptors(t) != before {
				t.Errorf("%d mappings, %d descriptors, %d before", n, descriptors(t), before)
			}
		}
	}
}
