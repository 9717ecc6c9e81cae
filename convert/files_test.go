package convert_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// content is a tensor to be written to a file.
type content struct {
	name  string
	dtype layout.DType
	shape []int
	data  []byte
}

func fixtureTensors(list []content) (tensors []modeltest.Tensor) {
	for _, c := range list {
		tensors = append(tensors, modeltest.Tensor{Name: c.name, DType: c.dtype, Shape: c.shape, Data: c.data})
	}
	return tensors
}

// counting is a tensor whose bytes count up.
func counting(name string, d layout.DType, shape ...int) content {
	size, err := d.Size(shape)
	if err != nil {
		panic(err)
	}
	data := make([]byte, size)
	for i := range min(len(data), 256) {
		data[i] = byte(i*7 + len(name))
	}
	for n := 256; n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
	return content{name, d, shape, data}
}

// safeTensors assembles a file whose data starts at phase modulo 8.
func safeTensors(phase int, metadata string, tensors ...content) []byte {
	return modeltest.SafeTensorsAt(phase, metadata, fixtureTensors(tensors)...)
}

func apr2File(t testing.TB, md layout.Metadata, tensors ...content) []byte {
	t.Helper()
	return modeltest.APR2(t, md, fixtureTensors(tensors)...)
}

func write(t testing.TB, b []byte) string { return modeltest.Write(t, "source", b) }

func open(t testing.TB, path string, opts *loader.Options) *loader.Model {
	t.Helper()
	if opts == nil {
		opts = &loader.Options{Stored: true} // tests compare what files hold
	}
	m, err := loader.Open(path, opts)
	return modeltest.Opened(t, m, err)
}

func openBytes(t testing.TB, b []byte) *loader.Model {
	t.Helper()
	m, err := loader.OpenBytes(b, nil)
	return modeltest.Opened(t, m, err)
}

func tensor(t testing.TB, m *loader.Model, name string) loader.Tensor {
	t.Helper()
	x, err := m.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func fixtures(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"apr2/*.apr", "safetensors/*.safetensors"} {
		found, err := filepath.Glob(filepath.Join("..", "testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no fixtures %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// onlyFiles makes sure that dir holds nothing but the files named.
func onlyFiles(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(names) {
		t.Errorf("%d entries, want %q", len(entries), names)
	}
	for i := range min(len(entries), len(names)) {
		if entries[i].Name() != names[i] {
			t.Errorf("%q, want %q", entries[i].Name(), names[i])
		}
	}
}

// kept, changed, lost and oversized select the records of a plan.
func kept(p *convert.Plan) []convert.Tensor {
	return records(p, func(t *convert.Tensor) bool { return t.NotReencoded != "" })
}

func changed(p *convert.Plan) []convert.Tensor {
	return records(p, func(t *convert.Tensor) bool { return t.Changed != "" })
}

func lost(p *convert.Plan) []convert.Tensor {
	return records(p, func(t *convert.Tensor) bool { return t.Lost.NotFinite+t.Lost.Zeroed > 0 })
}

func oversized(p *convert.Plan) (names []string) {
	for _, t := range records(p, func(t *convert.Tensor) bool { return t.Oversized }) {
		names = append(names, t.Name)
	}
	return names
}

func records(p *convert.Plan, are func(*convert.Tensor) bool) (list []convert.Tensor) {
	for i := range p.Tensors {
		if are(&p.Tensors[i]) {
			list = append(list, p.Tensors[i])
		}
	}
	return list
}

// sums counts compressed tensors and their bytes.
type sums struct {
	tensors     int
	raw, stored uint64
}

func compressed(p *convert.Plan) (s sums) {
	s.tensors, s.raw, s.stored = p.Compressed()
	return s
}
