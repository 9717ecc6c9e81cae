package loader_test

import (
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
var leftOut = regexp.MustCompile(`^(mmapio|parallel|flight)\.|\.func\d`)

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

// TestCallChains holds the chains of calls that doc.go lists: they are those of a file that is not mapped.
func TestCallChains(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	b := modeltest.SafeTensors(modeltest.Random("x", layout.F32, 64, 64))
	r := &chainReader{Reader: strings.NewReader(string(b))}
	for _, x := range []struct {
		method string
		read   func(x loader.Tensor) error
	}{
		{"ReadAt", func(x loader.Tensor) error { _, err := x.ReadAt(make([]byte, 8), 0); return err }},
		{"Bytes", func(x loader.Tensor) error { _, err := x.Bytes(); return err }},
		{"WriteTo", func(x loader.Tensor) error { _, err := x.WriteTo(new(strings.Builder)); return err }},
		{"WriteAs", func(x loader.Tensor) error {
			_, err := x.WriteAs(t.Context(), new(strings.Builder), layout.F16)
			return err
		}},
		{"ReadAs", func(x loader.Tensor) error { return x.ReadAs(t.Context(), make([]byte, 64), layout.F16, 0) }},
		{"DequantizeRows", func(x loader.Tensor) error { return x.DequantizeRows(make([]float32, 64), 1, 1) }},
		{"Slice.Dequantize", func(x loader.Tensor) error {
			s, err := x.Slice(loader.Range{First: 1, N: 2}, loader.Range{First: 1, N: 2})
			if err != nil {
				return err
			}
			return s.Dequantize(make([]float32, 4))
		}},
		{"MatVec", func(x loader.Tensor) error {
			return x.MatVec(t.Context(), make([]float32, 64), make([]float32, 64))
		}},
	} {
		m, err := loader.OpenReaderAt(t.Context(), r, int64(len(b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		tensor, err := m.Tensor("x")
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i == 0 || r.chain[0] != x.method && i < 10_000; i++ { // until no other goroutine has taken the caller's work
			r.chain = nil // what Open has read, or the try before
			if err := x.read(tensor); err != nil || r.chain == nil {
				t.Fatal(x.method, r.chain, err)
			}
			slices.Reverse(r.chain)
		}
		m.Close()
		chain := strings.Join(r.chain[1:], " → ") // without the method itself
		chain = strings.Replace(chain, "Cached.ReadAt → Stored.ReadAt → File.ReadAt", "bytes", 1)
		chain = strings.Replace(chain, "Cached.Read → Typed.Read → values.Expand → bytes", "values", 1)
		if line := regexp.MustCompile(`(?m)^//\t` + x.method + ` +` + regexp.QuoteMeta(chain) + `$`); !line.Match(doc) {
			t.Errorf("doc.go does not say that %s is %s", x.method, chain)
		}
	}
}
