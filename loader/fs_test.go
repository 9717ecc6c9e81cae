package loader_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// countedFS counts the files that are open.
type countedFS struct {
	fs.FS
	open atomic.Int32
}

type countedFile struct {
	*os.File
	from *countedFS
}

func (c *countedFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return countedFile{f.(*os.File), c}, nil
}

func (f countedFile) Close() error {
	f.from.open.Add(-1)
	return f.File.Close()
}

// TestOpenFS opens a manifest, and each shard by itself. All files are closed with the model.
func TestOpenFS(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Base(writeShards(t, dir, nil, tensorsOf("three")...))
	sys := &countedFS{FS: os.DirFS(dir)}
	names, err := fs.Glob(sys.FS, "*-of-*.apr")
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	for _, name := range append(names, manifest) {
		m, err := loader.OpenFS(sys, name, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for x := range m.Tensors() {
			if _, err := x.Bytes(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if m.Path() != name || (sys.open.Load() > 1) != (name == manifest) {
			t.Errorf("%s, %d files open", m.Path(), sys.open.Load())
		}
		m.Close()
		if sys.open.Load() != 0 {
			t.Errorf("%s: %d files open after Close", name, sys.open.Load())
		}
	}
}

// TestOpenFSMaps: files of this system are mapped, whatever file system of Go's they come through, and none stays open.
func TestOpenFSMaps(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Base(writeShards(t, dir, nil, tensorsOf("three")...))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for kind, sys := range map[string]fs.FS{"DirFS": os.DirFS(dir), "Root": root.FS()} {
		for _, noMap := range []bool{false, true} {
			m, err := loader.OpenFS(sys, manifest, &loader.Options{NoMap: noMap})
			if err != nil {
				t.Fatal(kind, err)
			}
			for _, c := range tensorsOf("three") {
				x := tensor(t, m, c.Name)
				if b, err := x.Bytes(); err != nil || !bytes.Equal(b, c.Data) || x.ZeroCopy() != (mapsFiles && !noMap) {
					t.Errorf("%s of %s, NoMap %t: zero copy %t, %v", c.Name, kind, noMap, x.ZeroCopy(), err)
				}
			}
			if s := m.Stats(); (s.UnmappedBytes == 0) != (mapsFiles && !noMap) {
				t.Errorf("%s, NoMap %t: %+v", kind, noMap, s)
			}
			if err := m.Close(); err != nil {
				t.Error(kind, err)
			}
		}
	}
}

// TestOpenFSChanged: what has the name of a mapped file is asked for, though the file came through fs.FS.
func TestOpenFSChanged(t *testing.T) {
	path := modeltest.Write(t, "m.safetensors", modeltest.SafeTensors(modeltest.Random("x", layout.F32, 10)))
	m, err := loader.OpenFS(os.DirFS(filepath.Dir(path)), filepath.Base(path), nil)
	m = modeltest.Opened(t, m, err)
	if err := m.Changed(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path+".new", modeltest.SafeTensors(modeltest.Random("x", layout.F32, 11)), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Skip(err) // as where open files cannot be replaced
	}
	if err := m.Changed(); mapsFiles && !errors.Is(err, loader.ErrChanged) {
		t.Error(err)
	}
}

// TestOpenFSRefuses has files that cannot be opened, and leaves none open.
func TestOpenFSRefuses(t *testing.T) {
	dir := t.TempDir()
	sys := &countedFS{FS: os.DirFS(dir)}
	if _, err := loader.OpenFS(sys, "none", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad"), []byte("no model at all"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bad", "."} {
		if _, err := loader.OpenFS(sys, name, nil); err == nil || sys.open.Load() != 0 {
			t.Errorf("%s: %v, %d files open", name, err, sys.open.Load())
		}
	}
	model := modeltest.SafeTensors(modeltest.Random("x", layout.U8, 3))
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.Create("m")
	if err != nil {
		t.Fatal(err)
	}
	f.Write(model)
	w.Close()
	r, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loader.OpenFS(r, "m", nil); !errors.Is(err, loader.ErrUnsupported) {
		t.Error(err)
	}
	m, err := loader.OpenFS(fstest.MapFS{"m": {Data: model}}, "m", nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}

// TestOpenFSConfig asks for config.json again and again. The model keeps it open neither when it is
// no JSON nor when it is.
func TestOpenFSConfig(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "config.json")
	if err := os.WriteFile(filepath.Join(dir, "m"), modeltest.SafeTensors(modeltest.Random("x", layout.U8, 3)), 0o666); err != nil {
		t.Fatal(err)
	}
	sys := &countedFS{FS: os.DirFS(dir)}
	m, err := loader.OpenFS(sys, "m", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", "[]", `{"hidden_size": 7}`} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := m.Config(t.Context())
		if (err == nil) != (text[len(text)-1] == '}') || sys.open.Load() != 1 {
			t.Errorf("%s: %v, %d files open", text, err, sys.open.Load())
		}
		if err == nil {
			if n, err := c.Int("hidden_size"); n != 7 || err != nil {
				t.Error(n, err)
			}
		}
	}
	if err := m.Close(); err != nil || sys.open.Load() != 0 {
		t.Errorf("%v, %d files open after Close", err, sys.open.Load())
	}
}

// panickyFile panics when it is asked what it is.
type panickyFile struct{ countedFile }

func (panickyFile) Stat() (fs.FileInfo, error) { panic("no answer") }

type panickyFS struct{ countedFS }

func (p *panickyFS) Open(name string) (fs.File, error) {
	f, err := p.countedFS.Open(name)
	return panickyFile{f.(countedFile)}, err
}

// TestOpenFSPanics: a file whose Stat panics is closed.
func TestOpenFSPanics(t *testing.T) {
	sys := &panickyFS{countedFS{FS: os.DirFS(filepath.Dir(modeltest.Write(t, "m.safetensors", modeltest.SafeTensors(tensorsOf("three")...))))}}
	entries, err := fs.ReadDir(sys.FS, ".")
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		loader.OpenFS(sys, entries[0].Name(), nil)
	}()
	if sys.open.Load() != 0 {
		t.Errorf("%d files are open", sys.open.Load())
	}
}
