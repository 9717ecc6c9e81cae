//go:build unix || wasm

package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// writeHubCache writes a SafeTensors model as the Hugging Face cache has it, a snapshot of links to blobs. It returns the path of the index.
func writeHubCache(t *testing.T, tensors []modeltest.Tensor) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"blobs", "snapshots", "snapshots/1"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name string, b []byte) string {
		blob := fmt.Sprintf("%x", name)
		modeltest.WriteTo(t, filepath.Join(dir, "blobs", blob), b)
		at := filepath.Join(dir, "snapshots/1", name)
		if err := os.Symlink("../../blobs/"+blob, at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	var weights []string
	for i, c := range tensors {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(tensors))
		link(name, modeltest.SafeTensors(c))
		weights = append(weights, fmt.Sprintf("%q:%q", c.Name, name))
	}
	return link("model.safetensors.index.json", []byte(`{"weight_map":{`+strings.Join(weights, ",")+`}}`))
}

func TestHubCache(t *testing.T) {
	tensors := []modeltest.Tensor{modeltest.Random("a", layout.F32, 3), modeltest.Random("b", layout.I8, 5)}
	path := writeHubCache(t, tensors)
	for _, w := range diskWays {
		m, err := w.open(t, path, nil)
		m = modeltest.Opened(t, m, err)
		for _, c := range tensors {
			if b, err := tensor(t, m, c.Name).Bytes(); err != nil || !bytes.Equal(b, c.Data) {
				t.Errorf("%s: %s: %v", w.name, c.Name, err)
			}
		}
	}
	snapshot := openPath(t, filepath.Dir(path), nil).Files()
	if got := snapshot[len(snapshot)-1].Path; len(snapshot) != 3 || got != path {
		t.Errorf("the directory opens as %s", got)
	}
}

// TestLinks: the shards of an APR2 manifest stay in its directory, whatever links there are.
func TestLinks(t *testing.T) {
	outside := t.TempDir()
	away := "../" + filepath.Base(outside) // from any other such directory
	tensors := tensorsOf("three")
	tests := []struct {
		name string
		link func(dir, shard string) error
		ok   bool
	}{
		{"out, relative", func(dir, shard string) error {
			return errors.Join(os.Rename(shard, filepath.Join(outside, "1")), os.Symlink(away+"/1", shard))
		}, false},
		{"out, absolute", func(dir, shard string) error {
			return errors.Join(os.Rename(shard, filepath.Join(outside, "2")), os.Symlink(filepath.Join(outside, "2"), shard))
		}, false},
		{"through a link to a directory", func(dir, shard string) error {
			return errors.Join(os.Rename(shard, filepath.Join(outside, "3")), os.Symlink(away, filepath.Join(dir, "d")), os.Symlink("d/3", shard))
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
		path := writeShards(t, dir, nil, tensors...)
		err := tt.link(dir, filepath.Join(dir, "model-00002-of-00003.apr"))
		if runtime.GOOS == "wasip1" && errors.Is(err, fs.ErrPermission) {
			continue // WASI makes no absolute links
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range diskWays {
			m, err := w.open(t, path, nil)
			if tt.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), `shards.file: shard "model-00002-of-00003.apr" cannot be used`) {
				t.Errorf("%s/%s: %v", tt.name, w.name, err)
			}
			if m == nil {
				continue
			}
			if b, err := tensor(t, m, "i8").Bytes(); err != nil || !bytes.Equal(b, tensors[1].Data) {
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
		m := openPath(t, writeShards(t, dir, nil, tensorsOf("three")...), opts)
		shard := filepath.Join(dir, "model-00002-of-00003.apr")
		if err := errors.Join(os.Rename(shard, filepath.Join(outside, "x")), os.Symlink("../"+filepath.Base(outside)+"/x", shard)); err != nil {
			t.Fatal(err)
		}
		if _, err := tensor(t, m, "i8").Bytes(); err == nil || !strings.Contains(err.Error(), "escapes") {
			t.Errorf("%+v: %v", opts, err)
		}
		os.Remove(shard)
	}
}

// TestShardComesBack: an error on first touch is not for ever. The link to the shard goes and
// comes back; renaming the shard itself would change its inode.
func TestShardComesBack(t *testing.T) {
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		index := writeHubCache(t, tensorsOf("three")[:2])
		m := openPath(t, index, opts)
		x, path := tensor(t, m, "i8"), filepath.Join(filepath.Dir(index), "model-00002-of-00002.safetensors")
		link, err := os.Readlink(path)
		if err := errors.Join(err, os.Remove(path)); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Float32s(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", opts, err)
		}
		if err := os.Symlink(link, path); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Float32s(); err != nil {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// TestDirectoryIsALink: the directory itself may be reached by any way.
func TestDirectoryIsALink(t *testing.T) {
	dir := t.TempDir()
	writeShards(t, dir, nil, tensorsOf("three")...)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("../"+filepath.Base(dir), link); err != nil {
		t.Fatal(err)
	}
	m := openPath(t, filepath.Join(link, "model.apr"), nil)
	if _, err := tensor(t, m, "i8").Bytes(); err != nil || m.Files()[0].Path != filepath.Join(link, "model-00001-of-00003.apr") {
		t.Error(err)
	}
}

// notFiles make something at path, in the place of a shard.
var notFiles = map[string]func(path string) error{
	"directory": func(path string) error { return os.Mkdir(path, 0o777) },
}

// TestShardNoFile: opening waits for nobody and reads no devices.
func TestShardNoFile(t *testing.T) {
	for name, make := range notFiles {
		dir := t.TempDir()
		path := writeShards(t, dir, nil, tensorsOf("three")...)
		shard := filepath.Join(dir, "model-00003-of-00003.apr")
		if err := errors.Join(os.Remove(shard), make(shard)); err != nil {
			t.Fatal(err)
		}
		for _, w := range diskWays {
			if m, err := w.open(t, path, nil); m != nil || err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s/%s: %v", name, w.name, err)
			}
		}
		if err := loader.VerifyFile(t.Context(), shard, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runtime.GOOS == "wasip1" {
		return // WASI makes no absolute links
	}
	path := writeHubCache(t, []modeltest.Tensor{modeltest.Random("a", layout.F32, 3)})
	shard := filepath.Join(filepath.Dir(path), "model-00001-of-00001.safetensors")
	if err := errors.Join(os.Remove(shard), os.Symlink("/dev/zero", shard)); err != nil {
		t.Fatal(err)
	}
	if _, err := loader.Open(path, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("device: %v", err)
	}
}
