package loader_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestCompressedRunFromAfar reads a compressed tensor from front to back in runs of many
// blocks: the lengths of blocks are not asked for one by one, and little comes twice.
func TestCompressedRunFromAfar(t *testing.T) {
	const run, runs = 30 * lz4block.Size, 10
	c := compressible("x", layout.U8, run*runs)
	file := lz4Model(t, c)
	r := &counter{r: bytes.NewReader(file)}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(file)), nil)
	m = modeltest.Opened(t, m, err)
	x := tensor(t, m, "x")
	r.reset()
	values, want := make([]float32, run), make([]float32, run)
	at := 0
	for run, err := range x.Values(values) {
		n := len(run.Values)
		if err := errors.Join(err, dequant.Expand(c.DType, want[:n], c.Data[at:][:n])); err != nil || !modeltest.SameFloats(run.Values, want[:n]) {
			t.Fatalf("elements from %d on: other values, %v", at, err)
		}
		at += n
	}
	if at != run*runs || r.reads.Load() > 4*runs || r.bytes.Load() > int64(x.StoredBytes())*5/4 {
		t.Errorf("%d elements in %d reads of %d bytes, of %d stored", at, r.reads.Load(), r.bytes.Load(), x.StoredBytes())
	}
}

// TestLargeReadsFromAfar: what a request costs is paid for many megabytes.
func TestLargeReadsFromAfar(t *testing.T) {
	const n = 20 << 20
	c := modeltest.Random("x", layout.U8, n)
	file := modeltest.APR2Model(t, nil, c)
	r := &counter{r: bytes.NewReader(file)}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(file)), nil)
	m = modeltest.Opened(t, m, err)
	x := tensor(t, m, "x")
	r.reset()
	var out bytes.Buffer
	if _, err := x.WriteTo(&out); err != nil || !bytes.Equal(out.Bytes(), c.Data) || r.reads.Load() > 2 || r.bytes.Load() != n {
		t.Errorf("WriteTo: %d reads of %d bytes, %v", r.reads.Load(), r.bytes.Load(), err)
	}
	r.reset()
	values := make([]float32, n)
	if err := x.Dequantize(values); err != nil || r.reads.Load() > 5 || r.bytes.Load() != n {
		t.Errorf("Dequantize: %d reads of %d bytes, %v", r.reads.Load(), r.bytes.Load(), err)
	}
	if i := slices.IndexFunc(values, func(v float32) bool { return v != v }); i >= 0 || values[n-1] != float32(c.Data[n-1]) {
		t.Error("other values")
	}
}

// TestCachedOnce: a tensor from afar is in the cache as stored or as values, and is read once.
func TestCachedOnce(t *testing.T) {
	c := modeltest.Random("x", layout.Q8_0, 64, 1024)
	file := modeltest.APR2Model(t, nil, c)
	r := &counter{r: bytes.NewReader(file)}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(file)), nil)
	m = modeltest.Opened(t, m, err)
	x := tensor(t, m, "x")
	row := make([]float32, 1024)
	heap := func(want int) {
		t.Helper()
		if s := m.Stats(); s.HeapBytes != uint64(want) {
			t.Errorf("%d bytes are cached, want %d", s.HeapBytes, want)
		}
	}
	if err := warmTensors(t.Context(), m, "x"); err != nil {
		t.Fatal(err)
	}
	heap(len(c.Data))
	r.reset()
	values := must(x.Float32s())(t)
	heap(4 * len(values))
	if err := errors.Join(x.DequantizeRows(row, 5, 1), warmTensors(t.Context(), m, "x")); err != nil || !modeltest.SameFloats(row, values[5*1024:6*1024]) {
		t.Errorf("other values, %v", err)
	}
	heap(4 * len(values))
	if n := r.reads.Load(); n != 0 {
		t.Errorf("%d reads of what is in memory", n)
	}
	l := must(m.Acquire())(t)
	if err := warmTensors(t.Context(), l, "x"); err != nil {
		t.Fatal(err)
	}
	if b, err := tensor(t, l, "x").Bytes(); err != nil || !bytes.Equal(b, c.Data) {
		t.Errorf("Bytes: %v, or others", err)
	}
	l.Release()
}

// TestWriteToWarm: what has been fetched is not fetched again.
func TestWriteToWarm(t *testing.T) {
	list := []modeltest.Tensor{modeltest.Random("raw", layout.U8, 1000), modeltest.Random("scaled", layout.Q8_0, 64)}
	file := modeltest.APR2Model(t, nil, list...)
	r := &counter{r: bytes.NewReader(file)}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(file)), nil)
	m = modeltest.Opened(t, m, err)
	if err := warmTensors(t.Context(), m, "raw", "scaled"); err != nil {
		t.Fatal(err)
	}
	r.reset()
	for _, c := range list {
		var out bytes.Buffer
		if n, err := tensor(t, m, c.Name).WriteTo(&out); err != nil || n != int64(len(c.Data)) || !bytes.Equal(out.Bytes(), c.Data) || r.reads.Load() > 0 {
			t.Errorf("%s: %d bytes in %d reads, %v", c.Name, n, r.reads.Load(), err)
		}
	}
}
