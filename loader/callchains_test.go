package loader_test

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// chainReader remembers the longest chain of calls from a method of loader to the file that its ReadAt was called by, as doc.go
// writes them.
type chainReader struct {
	*strings.Reader
	mu    sync.Mutex
	chain []string
	files map[string]bool // of this project that have the functions of the chain, and those that doc.go leaves out
}

// leftOut matches functions that doc.go leaves out: those without a name, and those that run them.
var leftOut = regexp.MustCompile(`^(mmapio|parallel|flight)\.|^plan\.(Each|\(\*Plan\)\.EachRange)|\.func\d`)

// shortened matches names of functions with what doc.go leaves out of them: the package of methods, that of loader, and Tensor.
var shortened = regexp.MustCompile(`^\w+\.\(\*(\w+)\)|^loader\.(Tensor\.)?|\[\.\.\.\]|^content\.(LZ4)`)

func (r *chainReader) ReadAt(p []byte, off int64) (int, error) {
	var chain []string
	files := make(map[string]bool)
	for f := range callStack() {
		name := f.Function[strings.LastIndex(f.Function, "/")+1:]
		if strings.HasPrefix(name, "content.(*Table).") { // reads where a block begins, which later calls know
			return r.Reader.ReadAt(p, off)
		}
		if strings.HasPrefix(name, "file.(*File)") || strings.HasPrefix(name, "apr2.") {
			chain = chain[:0] // what lies below a file, or a format, is its own
		}
		if !leftOut.MatchString(name) {
			chain = append(chain, shortened.ReplaceAllString(name, "$1$3"))
		}
		files[f.File] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(chain) > len(r.chain) {
		r.chain, r.files = chain, files
	}
	return r.Reader.ReadAt(p, off)
}

// callStack iterates over the running calls of functions of this project, the last call first, up to one of a test.
func callStack() iter.Seq[runtime.Frame] {
	var pcs [100]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	return func(yield func(runtime.Frame) bool) {
		seen := false
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			switch isTest := strings.Contains(f.Function, "loader_test."); {
			case isTest && seen:
				return
			case !isTest && strings.Contains(f.Function, "tensormap/"):
				if seen = true; !yield(f) {
					return
				}
			}
		}
	}
}

// TestCallChains holds the chains of calls that doc.go lists: they are those of a file that is not mapped. With the method itself a chain
// has at most 8 calls, for compressed tensors too, and its functions stand in few files.
func TestCallChains(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	const rows, cols = 640, 256 // ten blocks of LZ4
	tensors := []modeltest.Tensor{modeltest.Random("x", layout.F32, rows, cols), modeltest.Random("ints", layout.I32, rows, cols)}
	stored, compressed := modeltest.SafeTensors(tensors...), lz4Model(t, tensors...)
	region := []loader.Range{{First: 1, N: 2}, {First: 1, N: 2}}
	for _, x := range []struct {
		method string
		read   func(m *loader.Model, x, ints loader.Tensor) error
	}{
		{"ReadAt", func(_ *loader.Model, x, _ loader.Tensor) error { _, err := x.ReadAt(make([]byte, 8), 0); return err }},
		{"View", func(_ *loader.Model, x, _ loader.Tensor) error { _, err := loader.View[float32](x); return err }},
		{"Bytes", func(_ *loader.Model, x, _ loader.Tensor) error { _, err := x.Bytes(); return err }},
		{"Float32s", func(_ *loader.Model, _, ints loader.Tensor) error { _, err := ints.Float32s(); return err }},
		{"WriteTo", func(_ *loader.Model, x, _ loader.Tensor) error { _, err := x.WriteTo(io.Discard); return err }},
		{"WriteDecrypted", func(_ *loader.Model, x, _ loader.Tensor) error { _, err := x.WriteDecrypted(io.Discard); return err }},
		{"WriteAs", func(_ *loader.Model, x, _ loader.Tensor) error {
			_, err := x.WriteAs(t.Context(), io.Discard, layout.F16)
			return err
		}},
		{"ReadAs", func(_ *loader.Model, x, _ loader.Tensor) error {
			return x.ReadAs(t.Context(), make([]byte, 64), layout.F16, 0)
		}},
		{"Dequantize", func(_ *loader.Model, x, _ loader.Tensor) error { return x.Dequantize(make([]float32, rows*cols)) }},
		{"DequantizeRows", func(_ *loader.Model, x, _ loader.Tensor) error { return x.DequantizeRows(make([]float32, cols), 1, 1) }},
		{"DequantizeRange", func(_ *loader.Model, x, _ loader.Tensor) error { return x.DequantizeRange(make([]float32, 9), 1) }},
		{"Slice.Bytes", func(_ *loader.Model, x, _ loader.Tensor) error {
			s, err := x.Slice(region...)
			if err != nil {
				return err
			}
			return s.Bytes(make([]byte, 16))
		}},
		{"Slice.Dequantize", func(_ *loader.Model, x, _ loader.Tensor) error {
			s, err := x.Slice(region...)
			if err != nil {
				return err
			}
			return s.Dequantize(make([]float32, 4))
		}},
		{"MatVec", func(_ *loader.Model, x, _ loader.Tensor) error {
			return x.MatVec(t.Context(), make([]float32, rows), make([]float32, cols))
		}},
		{"MatMul", func(_ *loader.Model, _, ints loader.Tensor) error {
			return ints.MatMul(t.Context(), make([]float32, 2*rows), make([]float32, 2*cols), 2)
		}},
		{"Model.Warm", func(m *loader.Model, _, _ loader.Tensor) error {
			_, err := m.Warm(t.Context(), []string{"x"}, nil)
			return err
		}},
		{"Model.Warm", func(m *loader.Model, _, _ loader.Tensor) error { // by requests of 256 KiB
			_, err := m.Warm(t.Context(), []string{"x"}, &loader.WarmOptions{BytesPerSecond: 8 << 20})
			return err
		}},
		{"Model.Verify", func(m *loader.Model, _, _ loader.Tensor) error {
			_, err := m.Verify(t.Context(), nil)
			return err
		}},
	} {
		try := func(model []byte) (calls []string, files map[string]bool) {
			r := &chainReader{Reader: strings.NewReader(string(model))}
			m, err := loader.OpenReaderAt(t.Context(), r, int64(len(model)), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			tensor, err := m.Tensor("x")
			if err != nil {
				t.Fatal(err)
			}
			ints, err := m.Tensor("ints")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Metadata(); err != nil { // which is parsed once: scales may be in it
				t.Fatal(err)
			}
			r.chain = nil // what Open has read
			if err := x.read(m, tensor, ints); err != nil || r.chain == nil {
				t.Fatal(x.method, r.chain, err)
			}
			slices.Reverse(r.chain)
			return r.chain, r.files
		}
		for limit, model := range map[int][]byte{8: stored, 9: compressed} { // of files that a row passes
			calls, files := try(model)
			for range 10_000 { // until no other goroutine has taken the caller's work
				if calls[0] == x.method {
					break
				}
				calls, files = try(model)
			}
			if len(calls) > 8 {
				t.Errorf("%d calls: %v", len(calls), calls)
			}
			if x.method == "DequantizeRows" && len(files) > limit {
				t.Errorf("a row passes %d files: %v", len(files), files)
			}
			if calls[len(calls)-1] == "File.Audit" {
				calls[len(calls)-1] = "File.Probe" // doc.go says that Verify calls both
			}
			chain := strings.Join(calls[1:], " → ") // without the method itself
			chain = strings.Replace(chain, "LZ4.ReadAt → ", "", 1)
			chain = strings.Replace(chain, "Stored.ReadAt → File.ReadAt", "bytes", 1)
			chain = strings.Replace(chain, "Typed.Read → bytes", "values", 1)
			if line := regexp.MustCompile(`(?m)^//\t` + x.method + ` +` + regexp.QuoteMeta(chain) + `$`); !line.Match(doc) {
				t.Errorf("doc.go does not say that %s is %s", x.method, chain)
			}
		}
	}
}

// chainFolder is a folder of this system whose files are read by chainReaders.
type chainFolder struct {
	dir     string
	readers []*chainReader
}

func (f *chainFolder) Open(_ context.Context, name string) (loader.FolderFile, error) {
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	r := &chainReader{Reader: strings.NewReader(string(b))}
	f.readers = append(f.readers, r)
	return loader.FolderFile{Name: name, Source: chainSource{r}}, err
}

// chainSource is a chainReader as a source.
type chainSource struct{ *chainReader }

func (s chainSource) Close() error { return nil }

func (s chainSource) ReadAt(_ context.Context, p []byte, off int64) error {
	_, err := s.chainReader.ReadAt(p, off)
	return err
}

// TestCallChainsOfWeights holds the longest chains of quantized weights, which doc.go says: where a scheme reads the scales of a range of
// elements, and where it reads what is then cached.
func TestCallChainsOfWeights(t *testing.T) {
	paths, err := filepath.Glob("../testdata/quantized/*/model.safetensors")
	if err != nil || len(paths) < 50 {
		t.Fatal(paths, err)
	}
	var ofRange, ofCache []string
	for _, path := range paths {
		f := &chainFolder{dir: filepath.Dir(path)}
		m, err := loader.OpenFolder(t.Context(), f, filepath.Base(path), nil)
		m = modeltest.Opened(t, m, err)
		for x := range m.Tensors() {
			rows, cols := x.Rows()
			for row := range min(rows, 2) {
				for _, r := range f.readers {
					r.chain = nil
				}
				if x.Problem() == nil && x.DequantizeRows(make([]float32, cols), row, 1) != nil {
					t.Error(path, x.Name())
				}
				for _, r := range f.readers {
					longest := &ofRange
					if slices.Contains(r.chain, "Cache.Get") {
						longest = &ofCache
					}
					if len(r.chain) > len(*longest) {
						*longest = slices.Clone(r.chain)
					}
				}
			}
		}
	}
	if len(ofRange) != 11 || len(ofCache) != 15 {
		t.Errorf("%d calls: %v\n%d calls: %v", len(ofRange), ofRange, len(ofCache), ofCache)
	}
}

// filesOnTheWay is a file system that records the files of this project whose functions a name has passed before it is opened.
type filesOnTheWay struct {
	fs.FS
	mu    sync.Mutex
	files map[string]map[string]bool // by name
}

func (f *filesOnTheWay) Open(name string) (fs.File, error) {
	f.mu.Lock()
	f.files[name] = make(map[string]bool)
	for call := range callStack() {
		f.files[name][call.File] = true
	}
	f.mu.Unlock()
	return f.FS.Open(name)
}

// TestFilesOnTheWay: a path, and the name of a shard that an index has, pass functions of few files until they are opened.
func TestFilesOnTheWay(t *testing.T) {
	f := &filesOnTheWay{FS: os.DirFS("../testdata/shards/safetensors"), files: make(map[string]map[string]bool)}
	m, err := loader.OpenFS(f, "model.safetensors.index.json", nil)
	modeltest.Opened(t, m, err)
	for name, files := range f.files {
		isModel := strings.Contains(name, ".safetensors") // not a file beside it, whose name no call above has
		if isModel && len(files) > 8 {
			t.Errorf("%s passes %d files: %v", name, len(files), files)
		}
	}
	if len(f.files["model-00003-of-00004.safetensors"]) == 0 {
		t.Error("no shard was opened:", f.files)
	}
}
