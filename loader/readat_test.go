package loader_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Any part of the elements is what Bytes has there, however the file is read.
func TestReadAt(t *testing.T) {
	tensors := []modeltest.Tensor{modeltest.Random("a", layout.F32, 7, 401), modeltest.Random("odd", layout.U8, 7), modeltest.Random("b", layout.F16, 3), modeltest.Random("none", layout.F32, 0)}
	eachWay(t, modeltest.SafeTensors(tensors...), func(t *testing.T, m *loader.Model) {
		for x := range m.Tensors() {
			want, err := x.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if err := iotest.TestReader(io.NewSectionReader(x, 0, int64(x.RawBytes())), want); err != nil {
				t.Errorf("%s: %v", x.Name(), err)
			}
		}
	})
}

func TestReadAtEnds(t *testing.T) {
	m := openBytes(t, modeltest.SafeTensors(modeltest.Random("a", layout.U8, 10)), nil)
	x, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	want, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		off  int64
		size int
		n    int
		err  error
	}{
		{0, 10, 10, nil}, {9, 1, 1, nil}, {10, 0, 0, nil}, {0, 11, 10, io.EOF}, {8, 3, 2, io.EOF},
		{10, 1, 0, io.EOF}, {11, 0, 0, io.EOF}, {1<<63 - 1, 1, 0, io.EOF}, {-1, 1, 0, loader.ErrRange},
	} {
		p := make([]byte, test.size)
		n, err := x.ReadAt(p, test.off)
		if n != test.n || !errors.Is(err, test.err) {
			t.Errorf("%d bytes at %d: %d, %v; want %d, %v", test.size, test.off, n, err, test.n, test.err)
		}
		if n > 0 && !bytes.Equal(p[:n], want[test.off:][:n]) {
			t.Errorf("%d bytes at %d: %x", test.size, test.off, p)
		}
	}
	m.Close()
	if _, err := x.ReadAt(make([]byte, 1), 0); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
