package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// content is a tensor to be written to a file, and what must be read back.
type content struct {
	name  string
	dtype layout.DType
	shape []int
	data  []byte
}

func (c content) elements() uint64 {
	n, _ := layout.Elements(c.shape)
	return n
}

// noise is n bytes that are the same in every run.
func noise(n uint64, seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// random is a tensor of random bytes, all of which are values of any dtype.
func random(name string, d layout.DType, shape ...int) content {
	size, err := d.Size(shape)
	if err != nil {
		panic(err)
	}
	return content{name, d, shape, noise(size, uint64(d)<<32+size)}
}

// safeTensors assembles a file from the specification: a u64 length, JSON, data.
func safeTensors(tensors []content) []byte { return safeTensorsAt(0, tensors) }

// safeTensorsAt pads the header so that the data starts at phase modulo 8.
func safeTensorsAt(phase int, tensors []content) []byte {
	return safeTensorsWith(phase, "", tensors)
}

// safeTensorsWith has metadata, a JSON object, if any.
func safeTensorsWith(phase int, metadata string, tensors []content) []byte {
	list := make([]modeltest.Tensor, len(tensors))
	for i, c := range tensors {
		list[i] = modeltest.Tensor{Name: c.name, DType: c.dtype, Shape: c.shape, Data: c.data}
	}
	return modeltest.SafeTensorsAt(phase, metadata, list...)
}

// describedBy is the metadata of a file that carries the object of a quantization_config, as conversions write it.
func describedBy(object string) string { return fmt.Sprintf(`{"apr2.quantization":%q}`, object) }

var requiredKeys = layout.Metadata{
	{Key: "apr_version", Value: "2.0.0"},
	{Key: "model_type", Value: "test"},
	{Key: "architecture", Value: layout.Metadata{}},
}

// apr2File writes the tensors with the project's own writer.
func apr2File(t testing.TB, md layout.Metadata, tensors []content) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := apr2Head(t, &buf, md, tensors)
	for _, c := range tensors {
		if err := w.WriteTensor(c.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func apr2Head(t testing.TB, buf *bytes.Buffer, md layout.Metadata, tensors []content) *apr2.Writer {
	t.Helper()
	list := make([]layout.Tensor, len(tensors))
	for i, c := range tensors {
		list[i] = layout.Tensor{Name: []byte(c.name), DType: c.dtype, Shape: c.shape}
	}
	w, err := apr2.NewWriter(buf, slices.Values(list), &apr2.Options{Metadata: append(requiredKeys[:len(requiredKeys):len(requiredKeys)], md...)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Where the fields of an APR2 file are.
const (
	apr2DataOffset = 28
	apr2Footer     = 16
)

// shifted moves the tensors of an APR2 file back by n bytes, against the alignment that
// its flags promise. The file is valid otherwise.
func shifted(b []byte, n int) []byte {
	le := binary.LittleEndian
	at := le.Uint32(b[apr2DataOffset:])
	out := append([]byte{}, b[:at]...)
	le.PutUint32(out[apr2DataOffset:], at+uint32(n))
	out = append(out, make([]byte, n)...)
	out = append(out, b[at:]...)
	return footed(out)
}

// footed is an APR2 file with its footer set right.
func footed(b []byte) []byte {
	le := binary.LittleEndian
	footer := b[len(b)-apr2Footer:]
	le.PutUint32(footer, crc32.ChecksumIEEE(b[:len(b)-apr2Footer]))
	le.PutUint64(footer[8:], uint64(len(b)))
	return b
}

// sparseAPR2 is a file of zeros with these tensors (data is not looked at), so large that
// it is better not written. Its checksum is wrong, which opening does not look at.
func sparseAPR2(t testing.TB, tensors ...content) string {
	t.Helper()
	var head bytes.Buffer
	size := int64(apr2Head(t, &head, nil, tensors).Size())
	path := write(t, "sparse.apr", head.Bytes())
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	footer := binary.LittleEndian.AppendUint64([]byte("\x00\x00\x00\x002RPA"), uint64(size))
	if _, err := f.WriteAt(footer, size-apr2Footer); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

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

// truncateTo makes an empty file and lets it have size bytes.
func truncateTo(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
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
