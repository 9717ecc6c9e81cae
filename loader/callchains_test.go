package loader_test

import (
	"io"
	"os"
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
}

// leftOut matches functions that doc.go leaves out: those without a name, and those that run them.
var leftOut = regexp.MustCompile(`^(mmapio|parallel|flight)\.|^plan\.Each|\.func\d`)

// shortened matches names of functions with what doc.go leaves out of them: the package of methods, that of loader, and Tensor.
var shortened = regexp.MustCompile(`^\w+\.\(\*(\w+)\)|^loader\.(Tensor\.)?|\[\.\.\.\]`)

func (r *chainReader) ReadAt(p []byte, off int64) (int, error) {
	var pcs [100]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var chain []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name := f.Function[strings.LastIndex(f.Function, "/")+1:]
		if strings.HasPrefix(name, "loader_test.") || strings.HasPrefix(name, "testing.") {
			break
		}
		if strings.HasPrefix(name, "file.(*File)") {
			chain = chain[:0] // what lies below the file is its own
		}
		if !leftOut.MatchString(name) {
			chain = append(chain, shortened.ReplaceAllString(name, "$1"))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(chain) > len(r.chain) {
		r.chain = chain
	}
	return r.Reader.ReadAt(p, off)
}

// TestCallChains holds the chains of calls that doc.go lists: they are those of a file that is not mapped. With the method itself a chain
// has at most 8 calls, and 9 for compressed tensors.
func TestCallChains(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	tensors := []modeltest.Tensor{modeltest.Random("x", layout.F32, 64, 64), modeltest.Random("ints", layout.I32, 64, 64)}
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
		{"Dequantize", func(_ *loader.Model, x, _ loader.Tensor) error { return x.Dequantize(make([]float32, 64*64)) }},
		{"DequantizeRows", func(_ *loader.Model, x, _ loader.Tensor) error { return x.DequantizeRows(make([]float32, 64), 1, 1) }},
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
			return x.MatVec(t.Context(), make([]float32, 64), make([]float32, 64))
		}},
		{"MatMul", func(_ *loader.Model, _, ints loader.Tensor) error {
			return ints.MatMul(t.Context(), make([]float32, 128), make([]float32, 128), 2)
		}},
		{"Model.Warm", func(m *loader.Model, _, _ loader.Tensor) error {
			_, err := m.Warm(t.Context(), []string{"x"}, nil)
			return err
		}},
		{"Model.Verify", func(m *loader.Model, _, _ loader.Tensor) error {
			_, err := m.Verify(t.Context(), nil)
			return err
		}},
	} {
		try := func(model []byte) []string {
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
			return r.chain
		}
		chainOf := func(model []byte) (calls []string) {
			for range 10_000 { // until no other goroutine has taken the caller's work
				if calls = try(model); calls[0] == x.method {
					break
				}
			}
			return calls
		}
		calls := chainOf(stored)
		if len(calls) > 8 {
			t.Errorf("%d calls: %v", len(calls), calls)
		}
		if calls := chainOf(compressed); len(calls) > 9 && x.method != "Model.Verify" { // which audits the metadata of APR2
			t.Errorf("%d calls for LZ4: %v", len(calls), calls)
		}
		chain := strings.Join(calls[1:], " → ") // without the method itself
		chain = strings.Replace(chain, "Stored.ReadAt → File.ReadAt", "bytes", 1)
		chain = strings.Replace(chain, "Typed.Read → bytes", "values", 1)
		if line := regexp.MustCompile(`(?m)^//\t` + x.method + ` +` + regexp.QuoteMeta(chain) + `$`); !line.Match(doc) {
			t.Errorf("doc.go does not say that %s is %s", x.method, chain)
		}
	}
}
