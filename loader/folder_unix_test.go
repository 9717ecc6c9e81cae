//go:build unix

package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// hub lays a SafeTensors model out as the Hugging Face cache does: snapshots of links to
// blobs. It is the path of the index.
func hub(t *testing.T, tensors []content) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"blobs", "snapshots", "snapshots/1"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name string, b []byte) string {
		blob := fmt.Sprintf("%x", name)
		writeTo(t, filepath.Join(dir, "blobs", blob), b)
		at := filepath.Join(dir, "snapshots/1", name)
		if err := os.Symlink("../../blobs/"+blob, at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	var weights []string
	for i, c := range tensors {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(tensors))
		link(name, safeTensors([]content{c}))
		weights = append(weights, fmt.Sprintf("%q:%q", c.name, name))
	}
	return link("model.safetensors.index.json", []byte(`{"weight_map":{`+strings.Join(weights, ",")+`}}`))
}

func TestHubCache(t *testing.T) {
	tensors := []content{random("a", layout.F32, 3), random("b", layout.I8, 5)}
	path := hub(t, tensors)
	for _, w := range fromDisk() {
		m, err := w.open(path)
		m = opened(t, m, err)
		for _, c := range tensors {
			if b, err := tensor(t, m, c.name).Bytes(); err != nil || !bytes.Equal(b, c.data) {
				t.Errorf("%s: %s: %v", w.name, c.name, err)
			}
		}
	}
}

// TestLinks: the shards of an APR2 manifest stay in its directory, whatever links there are.
func TestLinks(t *testing.T) {
	outside := t.TempDir()
	tensors := three()
	tests := []struct {
		name string
		link func(dir, shard string) error
		ok   bool
	}{
		{"out, relative", func(dir, shard string) error {
			rel, err := filepath.Rel(dir, outside)
			return errors.Join(err, os.Rename(shard, filepath.Join(outside, "1")), os.Symlink(filepath.Join(rel, "1"), shard))
		}, false},
		{"out, absolute", func(dir, shard string) error {
			return errors.Join(os.Rename(shard, filepath.Join(outside, "2")), os.Symlink(filepath.Join(outside, "2"), shard))
		}, false},
		{"through a link to a directory", func(dir, shard string) error {
			return errors.Join(os.Rename(shard, filepath.Join(outside, "3")), os.Symlink(outside, filepath.Join(dir, "d")), os.Symlink("d/3", shard))
		}, false},
		{"inside", func(dir, shard string) error {
			return errors.Join(os.Rename(shard, filepath.Join(dir, "other")), os.Symlink("other", shard))
		}, true},
		{"to itself", func(dir, shard string) error {
			return errors.Join(os.Remove(shard), os.Symlink(filepath.Base(shard), shard))
		}, false},
		{"nowhere", func(dir, shard string) error { return errors.Join(os.Remove(shard), os.Symlink("nowhere", shard)) }, false},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		path := put(t, dir, nil, apart(tensors)...)
		if err := tt.link(dir, filepath.Join(dir, "model-00002-of-00003.apr")); err != nil {
			t.Fatal(err)
		}
		for _, w := range fromDisk() {
			m, err := w.open(path)
			if tt.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), `shards.file: shard "model-00002-of-00003.apr" cannot be used`) {
				t.Errorf("%s/%s: %v", tt.name, w.name, err)
			}
			if m == nil {
				continue
			}
			if b, err := tensor(t, m, "i8").Bytes(); err != nil || !bytes.Equal(b, tensors[1].data) {
				t.Errorf("%s/%s: %v", tt.name, w.name, err)
			}
			m.Close()
		}
	}
}

// TestLinkAfterOpen: a link out that takes the place of a shard is not followed either, even
// to the very same file.
func TestLinkAfterOpen(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		m := openPath(t, put(t, dir, nil, apart(three())...), opts)
		shard := filepath.Join(dir, "model-00002-of-00003.apr")
		if err := errors.Join(os.Rename(shard, filepath.Join(outside, "x")), os.Symlink(filepath.Join(outside, "x"), shard)); err != nil {
			t.Fatal(err)
		}
		if _, err := tensor(t, m, "i8").Bytes(); err == nil || !strings.Contains(err.Error(), "escapes") {
			t.Errorf("%+v: %v", opts, err)
		}
		os.Remove(shard)
	}
}

// TestDirectoryIsALink: the directory itself may be reached by any way.
func TestDirectoryIsALink(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, nil, apart(three())...)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	m := openPath(t, filepath.Join(link, "model.apr"), nil)
	if _, err := tensor(t, m, "i8").Bytes(); err != nil || m.Files()[0].Path != filepath.Join(link, "model-00001-of-00003.apr") {
		t.Error(err)
	}
}

// TestShardNoFile: opening waits for nobody and reads no devices.
func TestShardNoFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"directory": func(path string) error { return os.Mkdir(path, 0o777) },
	} {
		dir := t.TempDir()
		path := put(t, dir, nil, apart(three())...)
		shard := filepath.Join(dir, "model-00003-of-00003.apr")
		if err := errors.Join(os.Remove(shard), make(shard)); err != nil {
			t.Fatal(err)
		}
		for _, w := range fromDisk() {
			if m, err := w.open(path); m != nil || err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s/%s: %v", name, w.name, err)
			}
		}
	}
	path := hub(t, []content{random("a", layout.F32, 3)})
	shard := filepath.Join(filepath.Dir(path), "model-00001-of-00001.safetensors")
	if err := errors.Join(os.Remove(shard), os.Symlink("/dev/zero", shard)); err != nil {
		t.Fatal(err)
	}
	if _, err := loader.Open(path, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("device: %v", err)
	}
}

// manyShards is a model of n shards of one tensor each.
func manyShards(t testing.TB, n int) string {
	groups := make([][]content, n)
	for i := range groups {
		groups[i] = []content{random(fmt.Sprint(i), layout.U16, 9)}
	}
	return put(t, t.TempDir(), nil, groups...)
}

// TestFewDescriptors opens and reads a model of more shards than the process may have files.
func TestFewDescriptors(t *testing.T) {
	const shards = 400
	path := manyShards(t, shards)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = 150
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Skip(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		m := openPath(t, path, opts)
		for range 2 {
			for x := range m.Tensors() {
				b := make([]float32, 9)
				if err := x.Dequantize(b); err != nil {
					t.Fatalf("%+v: %v", opts, err)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTruncatedShard: a shard that shrinks once it is mapped is a fault, as any file is.
func TestTruncatedShard(t *testing.T) {
	dir := t.TempDir()
	big := random("f16", layout.F16, 64, 1024)
	m := openPath(t, put(t, dir, nil, []content{big}), nil)
	x := tensor(t, m, "f16")
	if err := x.Dequantize(make([]float32, x.Elements())); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(m.Files()[0].Path, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	for name, read := range readers {
		if err := read(x); !errors.Is(err, mmapio.ErrFault) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
