package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/trust"
)

// littleEndian says that this machine has the byte order of files, so that it views their elements in place.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// kind is a kind of model that tests open. A test takes kinds by their names, as kindsNamed("Open/NoMap", "LZ4") does, or one of the lists
// below, such as ways. Method of opens a file that the test has as bytes, and method at opens one on disk. Both close the model when the test
// ends. A test that expects opening to fail calls open itself. A test that needs one model of no special kind calls openPath or openBytes.
type kind struct {
	name   string
	edit   func(t testing.TB, file []byte) []byte // what method of does to the bytes first, such as encrypting them; nil does nothing
	open   func(t testing.TB, path string, opts *loader.Options) (*loader.Model, error)
	memory memory
}

// memory says where an open model has the bytes of its file.
type memory int

const (
	readFile   memory = iota // nowhere: it reads the file
	mappedFile               // in a mapping, if the platform maps files
	callers                  // in a slice of the caller's
)

// mapsBacking says that a file is mapped while it fills. Windows does not promise that a mapping shows what is
// written to its file.
const mapsBacking = mapsFiles && runtime.GOOS != "windows"

// kinds are all kinds of models. A name says how the file is opened, or else how it is edited before it is opened. A kind opens with the
// options of the test, and sets NoMap or Key besides if its name says so. Lists of kinds depend on the order of the first seven.
var kinds = func() []kind {
	type open = func(t testing.TB, path string, opts *loader.Options) (*loader.Model, error)
	with := func(open open, set func(*loader.Options)) open {
		return func(t testing.TB, path string, opts *loader.Options) (*loader.Model, error) {
			var changed loader.Options
			if opts != nil {
				changed = *opts
			}
			set(&changed)
			return open(t, path, &changed)
		}
	}
	noMap := func(o *loader.Options) { o.NoMap = true }
	key := func(o *loader.Options) { o.Key = withKey.Key }
	byPath := func(_ testing.TB, path string, opts *loader.Options) (*loader.Model, error) {
		return loader.Open(path, opts)
	}
	byFile := func(t testing.TB, path string, opts *loader.Options) (*loader.Model, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		m, err := loader.OpenFile(f, opts)
		if err != nil || mapsFiles && (opts == nil || !opts.NoMap) {
			f.Close()
		} else { // the model goes on reading from f
			t.Cleanup(func() { f.Close() })
		}
		return m, err
	}
	ofBytes := func(open func(t testing.TB, path string, b []byte, opts *loader.Options) (*loader.Model, error)) open {
		return func(t testing.TB, path string, opts *loader.Options) (*loader.Model, error) {
			return open(t, path, must(os.ReadFile(path))(t), opts)
		}
	}
	inMemory := ofBytes(func(_ testing.TB, _ string, b []byte, opts *loader.Options) (*loader.Model, error) {
		return loader.OpenBytes(b, opts)
	})
	inOddMemory := ofBytes(func(_ testing.TB, _ string, b []byte, opts *loader.Options) (*loader.Model, error) {
		odd := mmapio.AlignedBytes(len(b) + 1)[1:]
		copy(odd, b)
		return loader.OpenBytes(odd, opts)
	})
	fromAfar := ofBytes(func(_ testing.TB, path string, b []byte, opts *loader.Options) (*loader.Model, error) {
		return loader.OpenReaderAt(context.Background(), newDistant(path, b), int64(len(b)), opts)
	})
	backed := ofBytes(func(t testing.TB, path string, b []byte, opts *loader.Options) (*loader.Model, error) {
		return loader.OpenReaderAt(context.Background(), newDistant(path, b).backed(t), int64(len(b)), opts)
	})
	byReader := ofBytes(func(_ testing.TB, _ string, b []byte, opts *loader.Options) (*loader.Model, error) {
		return loader.OpenReaderAt(context.Background(), &countingReader{b: b}, int64(len(b)), opts)
	})
	backedMemory := readFile
	if mapsBacking {
		backedMemory = mappedFile
	}
	moved := func(by int) func(testing.TB, []byte) []byte {
		return func(_ testing.TB, file []byte) []byte { return shifted(file, by) }
	}
	encrypt := func(t testing.TB, file []byte) []byte {
		return converted(t, file, &convert.Options{Encrypter: encrypter})
	}
	compress := func(t testing.TB, file []byte) []byte {
		return converted(t, file, &convert.Options{Compress: convert.Fast})
	}
	return []kind{
		{"Open", nil, byPath, mappedFile},
		{"OpenFile", nil, byFile, mappedFile},
		{"Open/NoMap", nil, with(byPath, noMap), readFile},
		{"OpenFile/NoMap", nil, with(byFile, noMap), readFile},
		{"OpenBytes", nil, inMemory, callers},
		{"OpenReaderAt", nil, fromAfar, readFile},
		{"OpenReaderAt/backed", nil, backed, backedMemory},
		{"OpenReaderAt/plain", nil, byReader, readFile}, // the reader opens no other files, and its name is m.safetensors
		{"OpenBytes/odd", nil, inOddMemory, callers},    // the slice begins at an odd address
		// Files of the kinds below are APR2. Tensors of misaligned files do not begin where their alignment promises.
		{"misaligned", moved(3), byPath, mappedFile},
		{"misaligned/NoMap", moved(5), with(byFile, noMap), readFile}, // by OpenFile
		{"LZ4", compress, inMemory, callers},                          // by OpenBytes
		{"encrypted", encrypt, with(byPath, key), mappedFile},
		{"encrypted/OpenBytes", encrypt, with(inMemory, key), callers},
		{"encrypted/OpenReaderAt", encrypt, with(fromAfar, key), readFile},
	}
}()

// Lists of kinds that several tests open.
var (
	ways      = kinds[:7] // open any file as it is
	localWays = kinds[:5] // open it without a distant reader
	diskWays  = kinds[:4] // find the other files of a model too

	// The kinds of placements have the tensors mapped, read, or in memory, at aligned addresses or others.
	placements = kindsNamed("Open", "misaligned", "Open/NoMap", "misaligned/NoMap", "OpenBytes/odd")
)

// kindsNamed returns the kinds that have the given names, in their order. It panics if a kind does not exist.
func kindsNamed(names ...string) (list []kind) {
	for _, name := range names {
		list = append(list, kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })])
	}
	return list
}

// of edits a file, whose bytes are given, as the kind says, and opens it. It ends the test if that fails. The model closes when the test ends.
func (k kind) of(t testing.TB, file []byte, opts *loader.Options) *loader.Model {
	t.Helper()
	if k.edit != nil {
		file = k.edit(t, file)
	}
	return k.at(t, modeltest.Write(t, "model", file), opts)
}

// at opens the file at path without the kind's edit. It ends the test if that fails. The model closes when the test ends.
func (k kind) at(t testing.TB, path string, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := k.open(t, path, opts)
	return modeltest.Opened(t, m, err)
}

// eachWay runs a subtest for each of ways, with the model that it opens of a file.
func eachWay(t *testing.T, b []byte, test func(*testing.T, *loader.Model)) {
	t.Helper()
	for _, k := range ways {
		t.Run(k.name, func(t *testing.T) { test(t, k.of(t, b, nil)) })
	}
}

var (
	// encrypter has a key of zeros, and blocks so small that tensors have several. withKey opens what it encrypts.
	encrypter = &apr2.Encrypter{Secret: make(encrypted.Key, encrypted.KeySize), BlockSize: encrypted.MinBlock}
	withKey   = &loader.Options{Key: trust.Always(encrypter.Secret)}
)

// converted returns the file that convert.Write makes of the model in a file.
func converted(t testing.TB, file []byte, opts *convert.Options) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "converted.apr")
	must(convert.Write(t.Context(), openBytes(t, file, nil), path, opts))(t)
	return must(os.ReadFile(path))(t)
}

// openBytes opens the model of a file in memory. It ends the test if that fails. The model closes when the test ends.
func openBytes(t testing.TB, b []byte, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := loader.OpenBytes(b, opts)
	return modeltest.Opened(t, m, err)
}

// openPath does with the file at path what openBytes does with one in memory.
func openPath(t testing.TB, path string, opts *loader.Options) *loader.Model {
	t.Helper()
	m, err := loader.Open(path, opts)
	return modeltest.Opened(t, m, err)
}

// tensor returns the tensor of a model or a lease that has the given name, or ends the test.
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

// copyDir copies the files of a directory into one of the test's own.
func copyDir(t testing.TB, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// names returns the names of tensors, in their order.
func names(seq iter.Seq[loader.Tensor]) (names []string) {
	for x := range seq {
		names = append(names, x.Name())
	}
	return names
}

// buffers returns n slices of size bytes each to stream into.
func buffers(n, size int) (list [][]byte) {
	for range n {
		list = append(list, mmapio.AlignedBytes(size))
	}
	return list
}

// quantization returns metadata of APR2 with scales and zero points of tensors, such as "x 0.1, y 2".
func quantization(scales, zeros string) layout.Metadata {
	var q layout.Metadata
	for i, text := range []string{scales, zeros} {
		var of layout.Metadata
		for tensor := range strings.SplitSeq(text, ", ") {
			if name, number, ok := strings.Cut(tensor, " "); ok {
				of = append(of, layout.Entry{Key: name, Value: json.Number(number)})
			}
		}
		if i == 0 || of != nil {
			q = append(q, layout.Entry{Key: []string{"scales", "zero_points"}[i], Value: of})
		}
	}
	return layout.Metadata{{Key: "quantization", Value: q}}
}

// expandable are all dtypes that have values in float32 and an id in APR2.
var expandable = func() (list []layout.DType) {
	for d := range layout.DType(255) {
		if dequant.Supported(d) && apr2.Holds(d) {
			list = append(list, d)
		}
	}
	return list
}()

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
	return withFooter(out)
}

// withFooter sets the footer of an APR2 file right, and returns the file.
func withFooter(b []byte) []byte {
	footer := b[len(b)-apr2Footer:]
	binary.LittleEndian.PutUint32(footer, crc32.ChecksumIEEE(b[:len(b)-apr2Footer]))
	binary.LittleEndian.PutUint64(footer[8:], uint64(len(b)))
	return b
}

// tensorsOf returns the tensors of the model that tests call by the given name. It panics if there is none.
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

// lz4Model returns an APR2 file of compressed tensors, with raw tensors "before" and "after" them. It compresses the tensors that have no
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

// fixtures lists files that other programs wrote.
func fixtures(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"apr2/*.apr", "lz4/*.apr", "safetensors/*.safetensors"} {
		found, err := filepath.Glob(filepath.Join("..", "testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no fixtures %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// warmer is a model or a lease.
type warmer interface {
	Warm(ctx context.Context, names []string, opts *loader.WarmOptions) (loader.WarmResult, error)
}

// warmTensors warms tensors in the order in which they are stored.
func warmTensors(ctx context.Context, m warmer, names ...string) error {
	_, err := m.Warm(ctx, names, nil)
	return err
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
