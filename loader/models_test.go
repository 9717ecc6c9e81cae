package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// littleEndian machines view a file's elements in place.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// way is a way to open a file.
type way struct {
	name string
	open func(path string) (*loader.Model, error)
	kind memoryKind
}

// memoryKind says where the bytes of an open file are.
type memoryKind int

const (
	readFile   memoryKind = iota // in the file
	mappedFile                   // mapped, where the platform can
	callers                      // in memory of the caller's
)

// ways are all ways to open a model. The first maps, where the platform can.
var ways = []way{
	{"Open", func(path string) (*loader.Model, error) { return loader.Open(path, nil) }, mappedFile},
	{"OpenFile", openFile(nil), mappedFile},
	{"OpenBytes", func(path string) (*loader.Model, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return loader.OpenBytes(b, nil)
	}, callers},
	{"Open/NoMap", func(path string) (*loader.Model, error) { return loader.Open(path, &loader.Options{NoMap: true}) }, readFile},
	{"OpenFile/NoMap", openFile(&loader.Options{NoMap: true}), readFile},
}

// mapsBacking says that a file is mapped while it fills. Windows does not promise that a mapping shows what is
// written to its file.
const mapsBacking = mapsFiles && runtime.GOOS != "windows"

// openFile leaves the file open where the model goes on reading from it, until the model is gone.
func openFile(opts *loader.Options) func(path string) (*loader.Model, error) {
	return func(path string) (*loader.Model, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		m, err := loader.OpenFile(f, opts)
		if err != nil || opts == nil && mapsFiles {
			f.Close()
			return m, err
		}
		go func() {
			<-m.Done()
			f.Close()
		}()
		return m, nil
	}
}

// eachWay runs a test on a file opened in every way, and from afar.
func eachWay(t *testing.T, b []byte, test func(*testing.T, *loader.Model)) {
	t.Helper()
	eachKind(t, b, func(t *testing.T, m *loader.Model, _ memoryKind) { test(t, m) })
}

// eachKind does what eachWay does, and tells the test where the bytes are.
func eachKind(t *testing.T, b []byte, test func(*testing.T, *loader.Model, memoryKind)) {
	t.Helper()
	path := modeltest.Write(t, "model", b)
	remote, backed := newDistant(path, b), newDistant(path, b).backed(t)
	backedKind := readFile
	if mapsBacking {
		backedKind = mappedFile
	}
	for _, w := range append(ways[:len(ways):len(ways)],
		way{"OpenReaderAt", func(string) (*loader.Model, error) {
			return loader.OpenReaderAt(context.Background(), remote, remote.size, nil)
		}, readFile},
		way{"OpenReaderAt/backed", func(string) (*loader.Model, error) {
			return loader.OpenReaderAt(context.Background(), backed, backed.size, nil)
		}, backedKind},
	) {
		t.Run(w.name, func(t *testing.T) {
			m, err := w.open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			test(t, m, w.kind)
		})
	}
}

// openBytes opens a model for the length of a test.
func openBytes(t testing.TB, b []byte, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := loader.OpenBytes(b, opts)
	return modeltest.Opened(t, m, err)
}

func openPath(t testing.TB, path string, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := loader.Open(path, opts)
	return modeltest.Opened(t, m, err)
}

func tensor(t testing.TB, m interface {
	Tensor(string) (loader.Tensor, error)
}, name string) loader.Tensor {
	t.Helper()
	tensor, err := m.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	return tensor
}

// must returns v, or ends the test if err is not nil. Call it with the results of a function: must(m.Acquire())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// numbered returns count tensors "0", "1", … of size bytes, size + 1, …
func numbered(count, size int) (list []modeltest.Tensor) {
	for i := range count {
		list = append(list, modeltest.Random(fmt.Sprint(i), layout.U8, size+i))
	}
	return list
}

// fileBytes returns what is in a file.
func fileBytes(t testing.TB, path string) []byte {
	t.Helper()
	return must(os.ReadFile(path))(t)
}

// copyDir copies the files of a directory into one of the test's own.
func copyDir(t testing.TB, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Places in an APR2 file.
const (
	apr2DataOffset = 28 // of the header's field that says where tensors begin
	apr2Footer     = 16 // bytes
)

// shifted moves the tensors of an APR2 file back by n bytes, against the alignment that its flags promise. The file is
// valid otherwise.
func shifted(b []byte, n int) []byte {
	le := binary.LittleEndian
	at := le.Uint32(b[apr2DataOffset:])
	out := slices.Concat(b[:at], make([]byte, n), b[at:])
	le.PutUint32(out[apr2DataOffset:], at+uint32(n))
	return footed(out)
}

// footed sets the footer of an APR2 file right, and returns the file.
func footed(b []byte) []byte {
	footer := b[len(b)-apr2Footer:]
	binary.LittleEndian.PutUint32(footer, crc32.ChecksumIEEE(b[:len(b)-apr2Footer]))
	binary.LittleEndian.PutUint64(footer[8:], uint64(len(b)))
	return b
}

// tensorsOf returns the tensors of a model that tests open, by its name.
func tensorsOf(name string) []modeltest.Tensor {
	switch name {
	case "three": // floats, integers and blocks, of a few elements
		return []modeltest.Tensor{modeltest.Random("f32", layout.F32, 3, 4), modeltest.Random("i8", layout.I8, 3, 4), modeltest.Random("q4", layout.Q4_0, 3, 64)}
	case "pieces": // tensors that are streamed in many pieces
		return []modeltest.Tensor{modeltest.Random("x", layout.U8, 100, 1000), modeltest.Random("y", layout.F32, 100, 100)}
	case "many": // tensors that share chunks of 64 KiB, and tensors of several chunks
		return []modeltest.Tensor{
			modeltest.Random("a", layout.F32, 10, 100), modeltest.Random("b", layout.F16, 300, 300), modeltest.Random("c", layout.F32, 70, 1000),
			modeltest.Random("d", layout.I8, 1000), modeltest.Random("e", layout.F32, 30000),
		}
	case "large": // tensors of many pages, and one that all cores expand
		return []modeltest.Tensor{
			modeltest.Random("f32", layout.F32, 64, 1024), modeltest.Random("f16", layout.F16, 64, 1024),
			modeltest.Random("i8", layout.I8, 64, 1024), modeltest.Random("q8", layout.Q8_0, 1024, 1024),
		}
	case "FP8 blocks": // a quantized weight: 256 × 384 codes of 1.5, and a scale for each 128 × 128 of them
		return []modeltest.Tensor{
			{Name: "a.weight", DType: layout.F8_E4M3, Shape: []int{256, 384}, Data: bytes.Repeat([]byte{0x3c}, 256*384)},
			{Name: "a.weight_scale_inv", DType: layout.F32, Shape: []int{2, 3}, Data: modeltest.Float32s(1, 2, 4, 8, 16, 32)},
		}
	}
	panic("no model " + name)
}

// compressible returns a tensor that LZ4 halves: random bytes, and copies of bytes before them.
func compressible(name string, d layout.DType, shape ...int) modeltest.Tensor {
	c := modeltest.Random(name, d, shape...)
	rng := rand.New(rand.NewPCG(uint64(d), 11))
	for i := 0; i < len(c.Data); {
		n := min(rng.IntN(200)+1, len(c.Data)-i)
		if i > 1000 && rng.IntN(2) == 0 {
			copy(c.Data[i:i+n], c.Data[i-1-rng.IntN(1000):])
		}
		i += n
	}
	return c
}

// lz4Model returns an APR2 file of compressed tensors, with raw ones "before" and "after" them. It compresses those that have no
// LZ4 yet.
func lz4Model(t testing.TB, tensors ...modeltest.Tensor) []byte {
	t.Helper()
	all := []modeltest.Tensor{modeltest.Random("before", layout.U8, 5)}
	for _, c := range tensors {
		if c.LZ4 == nil {
			c.LZ4 = modeltest.Blocks(t, c.Data)
		}
		all = append(all, c)
	}
	return modeltest.APR2Model(t, nil, append(all, modeltest.Random("after", layout.U8, 5))...)
}
