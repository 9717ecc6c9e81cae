package peers

import (
	"os"
	"path/filepath"
	"testing"

	gguf_parser "github.com/gpustack/gguf-parser-go"
	"github.com/ollama/ollama/fs/ggml"
	"github.com/tensormap/tensormap/bench/internal/llama3"
	"github.com/tensormap/tensormap/loader"
)

// An opener reads the descriptions of the tensors and of the model in a GGUF file, and closes it. It returns the number
// of tensors.
type opener struct {
	name string
	open func(path string) (tensors int, err error)
}

// ggufOpeners are ours, and the others in each of their modes that might be the fastest. Without
// UseMMap, gguf-parser-go takes a system call for every number and string.
var ggufOpeners = []opener{
	{"tensormap", func(path string) (int, error) {
		m, err := loader.Open(path, nil)
		if err != nil {
			return 0, err
		}
		return m.Len(), m.Close()
	}},
	{"gguf-parser-go/UseMMap+SkipLargeMetadata", parse(gguf_parser.UseMMap(), gguf_parser.SkipLargeMetadata())},
	{"gguf-parser-go/UseMMap", parse(gguf_parser.UseMMap())},
	{"ollama/no_arrays", decodeGGML(0)},
	{"ollama/all_arrays", decodeGGML(-1)},
}

// parse returns a function that opens a file by gguf-parser-go.
func parse(opts ...gguf_parser.GGUFReadOption) func(string) (int, error) {
	return func(path string) (int, error) {
		f, err := gguf_parser.ParseGGUFFile(path, opts...)
		if err != nil {
			return 0, err
		}
		return len(f.TensorInfos), nil
	}
}

// decodeGGML returns a function that opens a file by Ollama's fs/ggml, and reads arrays of up to maxArray elements; -1
// stands for all.
func decodeGGML(maxArray int) func(string) (int, error) {
	return func(path string) (int, error) {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		g, err := ggml.Decode(f, maxArray)
		if err != nil {
			return 0, err
		}
		return len(g.Tensors().Items()), nil
	}
}

// BenchmarkGGUF opens and closes a file with the outline of a large Llama 3, in the page cache.
func BenchmarkGGUF(b *testing.B) {
	path := filepath.Join(b.TempDir(), "model.gguf")
	if err := llama3.Full.WriteFile(path); err != nil {
		b.Fatal(err)
	}
	for _, o := range ggufOpeners {
		b.Run(o.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := o.open(path); err != nil || n != llama3.Full.Tensors {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// TestGGUFOpeners: all open a small file and find its tensors.
func TestGGUFOpeners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	outline := llama3.Outline{Tensors: 20, Tokens: 300, Merges: 500}
	if err := outline.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	for _, o := range ggufOpeners {
		if n, err := o.open(path); err != nil || n != outline.Tensors {
			t.Errorf("%s: %d tensors, %v", o.name, n, err)
		}
	}
}
