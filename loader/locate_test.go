package loader_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// TestOpenDirectory: of the files in a directory, what is opened or what is said.
func TestOpenDirectory(t *testing.T) {
	one := modeltest.SafeTensors(tensorsOf("three")[:1]...)
	// Files that stand for one, whatever is in them, but for manifests and GGUF.
	index := []byte(`{"weight_map":{"f32":"a.safetensors","i8":"b.safetensors"}}`)
	for _, test := range []struct {
		name  string
		files map[string][]byte
		open  string // the file that the model is opened by; else
		says  string
	}{
		{"one file", map[string][]byte{"weights.safetensors": one, "config.json": nil, "README.md": nil}, "weights.safetensors", ""},
		{"an upper-case name", map[string][]byte{"WEIGHTS.SAFETENSORS": one}, "WEIGHTS.SAFETENSORS", ""},
		{"a wrong name", map[string][]byte{"weights.gguf": one}, "weights.gguf", ""},
		{"an index", map[string][]byte{"x.safetensors.index.json": index, "a.safetensors": one, "b.safetensors": modeltest.SafeTensors(tensorsOf("three")[1:2]...)}, "x.safetensors.index.json", ""},
		{"an index of a variant", map[string][]byte{"x.safetensors.index.fp16.json": index, "a.safetensors": one, "b.safetensors": modeltest.SafeTensors(tensorsOf("three")[1:2]...)}, "x.safetensors.index.fp16.json", ""},
		{"one called model", map[string][]byte{"adapter_model.safetensors": nil, "model.safetensors": one, "model.fp16.safetensors": nil}, "model.safetensors", ""},
		{"an index called model", map[string][]byte{"consolidated.safetensors": nil, "model.safetensors.index.json": index, "a.safetensors": one, "b.safetensors": modeltest.SafeTensors(tensorsOf("three")[1:2]...)}, "model.safetensors.index.json", ""},
		{"one beside its index", map[string][]byte{"model.safetensors": one, "model.safetensors.index.json": index, "a.safetensors": one, "b.safetensors": modeltest.SafeTensors(tensorsOf("three")[1:2]...)}, "model.safetensors", ""},
		{"one beside an index without its shards", map[string][]byte{"model.safetensors": one, "model.safetensors.index.json": index}, "model.safetensors", ""},
		{"one beside hidden ones", map[string][]byte{"a.safetensors": one, "._a.safetensors": nil, ".safetensors": nil}, "a.safetensors", ""},
		{"a damaged file", map[string][]byte{"a.gguf": []byte("GGUF")}, "", "a.gguf: gguf: "},
		{"nothing", nil, "", "is a directory with no model in it, that is, no file called *.apr, "},
		{"nothing known", map[string][]byte{"model.onnx": one, "config.json": index, "merges.bin": nil}, "", "*.safetensors, *.tsm"},
		{"a pickle", map[string][]byte{"pytorch_model.bin": one, "config.json": index}, "", "is a directory with no model in it, that is, no file called *.apr, *.april, *.bw2l, *.gguf, *.safetensors, *.tsm, " +
			"but pickles, which may run programs when they are read and are not opened here: pytorch_model.bin; use the model's SafeTensors or GGUF"},
		{"pickles", map[string][]byte{"pytorch_model-00001-of-00002.bin": nil, "last.ckpt": nil, "b.PT": nil, ".c.pth": nil}, "", ": b.PT, last.ckpt, pytorch_model-00001-of-00002.bin; use"},
		{"two", map[string][]byte{"a.gguf": nil, "b.gguf": nil}, "", "with 2 models in it, to be opened by their own paths: a.gguf, b.gguf"},
		{"many", map[string][]byte{"a.gguf": nil, "b.gguf": nil, "c.gguf": nil, "d.gguf": nil, "e.gguf": nil}, "", "with 5 models in it, to be opened by their own paths: a.gguf, b.gguf, c.gguf, d.gguf, …"},
		{"two called model", map[string][]byte{"model.safetensors": one, "model.gguf": nil}, "", "with 2 models in it"},
		{"shards without an index", map[string][]byte{"a.safetensors": one, "b.safetensors": one}, "", "with 2 models in it"},
		{"a shard alone", map[string][]byte{"model-00001-of-00002.safetensors": one}, "", "is a directory with shards in it, but without the manifest or index that leads to all of them: model-00001-of-00002.safetensors"},
		{"shards alone", map[string][]byte{"m-00001-of-00002.apr": one, "m-00002-of-00002.apr": one}, "", "with shards in it, but without"},
		{"a shard that is all", map[string][]byte{"model-00001-of-00001.safetensors": one}, "model-00001-of-00001.safetensors", ""},
		{"a damaged index", map[string][]byte{"x.safetensors.index.json": index[1:], "a.safetensors": one}, "", "with 2 models in it"},
		{"a damaged index called model", map[string][]byte{"model.safetensors.index.json": index[:9], "a.safetensors": one}, "", "model.safetensors.index.json: manifest: "},
		{"shards of an older model", map[string][]byte{"x.safetensors": one, "x-00001-of-00002.safetensors": nil, "x-00002-of-00002.safetensors": nil}, "x.safetensors", ""},
		{"shards of an older model beside an index", map[string][]byte{"x.safetensors.index.json": index, "a.safetensors": one, "b.safetensors": modeltest.SafeTensors(tensorsOf("three")[1:2]...), "x-00003-of-00003.safetensors": nil}, "x.safetensors.index.json", ""},
		{"shards of another model", map[string][]byte{"x.safetensors": one, "y-00001-of-00002.safetensors": nil}, "", "with 2 models in it"},
		{"splits of two", map[string][]byte{"a-00001-of-00002.gguf": nil, "a-00002-of-00002.gguf": nil, "b-00001-of-00002.gguf": nil, "b-00002-of-00002.gguf": nil}, "", "with 2 models in it, to be opened by their own paths: a-00001-of-00002.gguf, b-00001-of-00002.gguf"},
	} {
		dir := t.TempDir()
		for name, b := range test.files {
			modeltest.WriteTo(t, filepath.Join(dir, name), b)
		}
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			m, err := loader.Open(dir, opts)
			if test.open == "" {
				path := new(fs.PathError)
				if m != nil || err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), dir) ||
					strings.HasPrefix(test.says, "is a") && (!errors.Is(err, mmapio.ErrDirectory) || !errors.As(err, &path) || path.Path != dir) {
					t.Errorf("%s: %v, want %s", test.name, err, test.says)
				}
				continue
			}
			m = modeltest.Opened(t, m, err)
			if b, err := tensor(t, m, "f32").Bytes(); err != nil || !bytes.Equal(b, tensorsOf("three")[0].Data) {
				t.Errorf("%s: %v", test.name, err)
			}
			files := m.Files()
			if got := files[len(files)-1].Path; got != filepath.Join(dir, test.open) {
				t.Errorf("%s: opened %s, want %s", test.name, got, test.open)
			}
		}
	}
}

// TestOpenHubRoot opens a directory as the Hugging Face cache has one for each model.
func TestOpenHubRoot(t *testing.T) {
	one := modeltest.SafeTensors(tensorsOf("three")[:1]...)
	both := []string{"snapshots/0a1b/model.safetensors", "snapshots/2c3d/model.safetensors"}
	for _, test := range []struct {
		name  string
		files []string
		main  string // what refs/main has; "-" is no such file
		open  string // the file that the model is opened by; else
		says  string
	}{
		{"of two", both, "2c3d", both[1], ""},
		{"with an end of line", both, "0a1b\n", both[0], ""},
		{"the only one", both[:1], "-", both[0], ""},
		{"none of two", both, "-", "", "with 2 snapshots in it, and no refs/main that names one: 0a1b, 2c3d"},
		{"one that is not there", both, "ffff", "", `with refs/main in it, which names the snapshot "ffff", but only the snapshots 0a1b, 2c3d`},
		{"outside", append(both, "outside/model.safetensors"), "../outside", "", `names the snapshot "../outside"`},
		{"the directory of snapshots", append(both, "snapshots/model.safetensors"), ".", "", `names the snapshot "."`},
		{"nothing", both, "", "", `names the snapshot ""`},
		{"much", both, strings.Repeat("0", 1000), "", "refs/main in it that is no file of one name"},
		{"a snapshot without a model", []string{"snapshots/0a1b/config.json"}, "0a1b", "", "0a1b: is a directory with no model in it"},
		{"a model beside them", append(both, "own.safetensors"), "0a1b", "own.safetensors", ""},
		{"a root within", []string{"snapshots/0a1b/snapshots/4e5f/model.safetensors"}, "0a1b", "", "no model in it"},
	} {
		dir := filepath.Join(t.TempDir(), "models--org--name")
		put := func(name string, b []byte) {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			modeltest.WriteTo(t, path, b)
		}
		for _, name := range test.files {
			put(name, one)
		}
		if test.main != "-" {
			put("refs/main", []byte(test.main))
		}
		m, err := loader.Open(dir, nil)
		if test.open == "" {
			if m != nil || err == nil || !strings.Contains(err.Error(), test.says) || !errors.Is(err, mmapio.ErrDirectory) {
				t.Errorf("%s: %v, want %s", test.name, err, test.says)
			}
			continue
		}
		if got := modeltest.Opened(t, m, err).Files()[0].Path; got != filepath.Join(dir, test.open) {
			t.Errorf("%s: opened %s, want %s", test.name, got, test.open)
		}
	}
}

// TestOpenDirectoryOfShards: what is a part of another model in the directory is none itself.
func TestOpenDirectoryOfShards(t *testing.T) {
	for _, format := range []string{"apr2", "gguf", "safetensors"} {
		dir := copyDir(t, filepath.Join(testdata, "shards", format))
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list { // which are other models
			if !strings.HasPrefix(e.Name(), "model") {
				os.Remove(filepath.Join(dir, e.Name()))
			}
		}
		for _, name := range []string{"model", "other"} { // nothing hangs on the word
			m := openPath(t, dir, nil)
			if n := len(m.Files()); n < 4 {
				t.Errorf("%s: %d files", format, n)
			}
			if r, err := m.Verify(t.Context(), nil); err != nil || r.Err() != nil {
				t.Errorf("%s: %v, %v", format, err, r.Err())
			}
			for _, manifest := range []string{".apr", ".safetensors.index.json"} {
				os.Rename(filepath.Join(dir, name+manifest), filepath.Join(dir, "other"+manifest))
			}
		}
	}
}

// TestOpenWorkingDirectory: names are as the user would say them.
func TestOpenWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	writeShards(t, dir, nil, tensorsOf("three")...)
	t.Chdir(dir)
	m := openPath(t, ".", nil)
	if files := m.Files(); files[0].Path != "model-00001-of-00003.apr" || files[3].Path != "model.apr" {
		t.Errorf("%+v", files)
	}
}

func TestOpenDirectoryIsNoFile(t *testing.T) {
	dir := t.TempDir()
	modeltest.WriteTo(t, filepath.Join(dir, "model.safetensors"), modeltest.SafeTensors(modeltest.Random("x", layout.U8, 1)))
	f, err := os.Open(dir)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		if m, err := loader.OpenFile(f, opts); m != nil || err == nil {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}
