package loader_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// FuzzOpenBytes does everything with whatever opens. Errors are fine, panics are not.
func FuzzOpenBytes(f *testing.F) {
	for _, path := range fixtures(f) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := loader.OpenBytes(b, nil)
		if err != nil {
			return
		}
		defer m.Close()
		m.Metadata()
		if _, err := m.Verify(context.Background(), &loader.VerifyOptions{Workers: 1}); err != nil {
			t.Errorf("Verify: %v", err)
		}
		count := 0
		for x := range m.Sorted() {
			count++
			touch(t, m, x)
		}
		if count != m.Len() {
			t.Errorf("%d of %d tensors", count, m.Len())
		}
	})
}

func touch(t *testing.T, m *loader.Model, x loader.Tensor) {
	if found, err := m.Tensor(x.Name()); err != nil || found != x {
		t.Errorf("%q is not found: %v", x.Name(), err)
	}
	raw, err := x.Bytes()
	if x.Encoding() == layout.Raw && (err != nil || uint64(len(raw)) != x.RawBytes()) {
		t.Errorf("%q: %d of %d bytes, %v", x.Name(), len(raw), x.RawBytes(), err)
	}
	for _, b := range raw {
		_ = b // reads the view
	}
	if n, err := x.WriteTo(io.Discard); err == nil && uint64(n) != x.RawBytes() {
		t.Errorf("%q: %d of %d bytes written", x.Name(), n, x.RawBytes())
	}
	if values, err := x.Float32s(); err == nil && uint64(len(values)) != x.Elements() {
		t.Errorf("%q: %d of %d values", x.Name(), len(values), x.Elements())
	}
	last := make([]uint64, len(x.Shape()))
	for i, dim := range x.Shape() {
		last[i] = dim - 1 // wraps around where dim is 0
	}
	x.At(last...)
	x.At(make([]uint64, len(last))...)
	for _, err := range x.Chunks(0) {
		if err != nil {
			break
		}
	}
	loader.View[float32](x)
	loader.View[uint16](x)
}
