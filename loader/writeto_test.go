package loader_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestWriteToFails: what the writer says is not made the tensor's fault.
func TestWriteToFails(t *testing.T) {
	path := modeltest.Write(t, "model", modeltest.SafeTensors(modeltest.Random("x", layout.F32, 1000)))
	full := errors.New("no space left")
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		x := tensor(t, openPath(t, path, opts), "x")
		for want, n := range map[error]int{full: 100, io.ErrShortWrite: 10} {
			written, err := x.WriteTo(failingWriter{n, want})
			if err != want || written != int64(n) {
				t.Errorf("NoMap %v: %d bytes, %v; want %d, %v", opts != nil, written, err, n, want)
			}
		}
		if written, err := x.WriteTo(failingWriter{10, nil}); err != io.ErrShortWrite || written != 10 {
			t.Errorf("NoMap %v: %d bytes, %v, of a writer that breaks its contract", opts != nil, written, err)
		}
	}
}

// TestWriteToFailsMidway: what was written of a compressed tensor until then is right.
func TestWriteToFailsMidway(t *testing.T) {
	c := compressible("x", layout.F32, 1024, 1280) // five MiB
	m := openBytes(t, lz4Model(t, c), nil)
	x, full := tensor(t, m, "x"), errors.New("no space left")
	for _, room := range []int{0, 1, 64<<10 - 1, 64 << 10, 1<<20 + 7, len(c.Data) - 1} {
		w := &boundedWriter{room: room, err: full}
		written, err := x.WriteTo(w)
		if err != full || written != int64(room) || !bytes.Equal(w.b, c.Data[:room]) {
			t.Errorf("%d bytes of %d, %v", written, room, err)
		}
	}
	w := &boundedWriter{room: len(c.Data)}
	if written, err := x.WriteTo(w); err != nil || written != int64(len(c.Data)) || !bytes.Equal(w.b, c.Data) {
		t.Errorf("all of it: %d bytes, %v", written, err)
	}
}

// boundedWriter takes room bytes and fails then.
type boundedWriter struct {
	room int
	err  error
	b    []byte
}

func (w *boundedWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.room-len(w.b))
	w.b = append(w.b, b[:n]...)
	if n < len(b) {
		return n, w.err
	}
	return n, nil
}

type failingWriter struct {
	n   int
	err error
}

func (w failingWriter) Write([]byte) (int, error) { return w.n, w.err }
