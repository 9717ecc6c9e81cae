package loader_test

import (
	"bytes"
	"cmp"
	"io"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestNoAllocations holds for a file that is mapped or in memory, with or without a lease.
func TestNoAllocations(t *testing.T) {
	if testmode.ChecksPointers() {
		t.Skip("the portable loops allocate then")
	}
	md := quantization("i8 0.1", "i8 -3")
	file := modeltest.APR2Model(t, md,
		modeltest.Random("f32", layout.F32, 8, 8),
		modeltest.Random("f16", layout.F16, 8, 8),
		modeltest.Random("q4", layout.Q4_0, 8, 64),
		modeltest.Random("i8", layout.I8, 8, 8),
	)
	m := openBytes(t, file, nil)
	if q, scaled, err := tensor(t, m, "i8").Scale(); !scaled || err != nil {
		t.Fatalf("i8 has no scale: %+v, %v", q, err)
	}
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	dst, row, stored := make([]float32, 8*64), make([]float32, 64), make([]byte, 4*18)
	check := func(name string, f func() error) {
		t.Helper()
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := testing.AllocsPerRun(100, func() { f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for where, from := range map[string]interface {
		Tensor(string) (loader.Tensor, error)
	}{"model": m, "lease": l} {
		f32, f16, q4, i8 := tensor(t, from, "f32"), tensor(t, from, "f16"), tensor(t, from, "q4"), tensor(t, from, "i8")
		for name, f := range map[string]func() error{
			"Tensor":                func() error { _, err := from.Tensor("q4"); return err },
			"Bytes":                 func() error { _, err := q4.Bytes(); return err },
			"Dequantize":            func() error { return q4.Dequantize(dst) },
			"Dequantize/F32":        func() error { return f32.Dequantize(dst[:64]) },
			"DequantizeRows":        func() error { return q4.DequantizeRows(row, 3, 1) },
			"DequantizeRows/F16":    func() error { return f16.DequantizeRows(row[:8], 3, 1) },
			"DequantizeRows/scaled": func() error { return i8.DequantizeRows(row[:8], 3, 1) },
			"Float32s/cached":       func() error { _, err := q4.Float32s(); return err },
			"WriteTo":               func() error { _, err := q4.WriteTo(io.Discard); return err },
			"Slice": func() error {
				s, err := f32.Slice(loader.All(), loader.Range{First: 2, N: 4})
				return cmp.Or(err, s.Dequantize(dst[:32]))
			},
			"Slice/blocks": func() error {
				s, err := q4.Slice(loader.Range{First: 2, N: 4}, loader.Range{First: 32, N: 32})
				return cmp.Or(err, s.Bytes(stored))
			},
			"Scale": func() error { _, _, err := i8.Scale(); return err },
		} {
			check(where+"/"+name, f)
		}
		if !littleEndian {
			continue
		}
		check(where+"/Float32s", func() error { _, err := f32.Float32s(); return err })
		check(where+"/View", func() error { _, err := loader.View[uint16](f16); return err })
	}
}

// TestCachedValuesAllocateNothing: values that are in the cache are copied from there, call by call, also those of a file that is not in memory.
func TestCachedValuesAllocateNothing(t *testing.T) {
	if testmode.ChecksPointers() {
		t.Skip("the portable loops allocate then")
	}
	file := modeltest.SafeTensors(modeltest.Random("x", layout.BF16, 64, 64))
	m, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(file), int64(len(file)), nil)
	x := tensor(t, modeltest.Opened(t, m, err), "x")
	want, err := x.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, 64)
	if n := testing.AllocsPerRun(100, func() { err = x.DequantizeRows(row, 3, 1) }); n != 0 || err != nil || !modeltest.SameFloats(row, want[3*64:][:64]) {
		t.Errorf("%v allocations, %v", n, err)
	}
}
