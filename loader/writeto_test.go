package loader_test

import (
	"errors"
	"io"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestWriteToFails: what the writer says is not made the tensor's fault.
func TestWriteToFails(t *testing.T) {
	path := write(t, "model", safeTensors([]content{random("x", layout.F32, 1000)}))
	full := errors.New("no space left")
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		x := tensor(t, openPath(t, path, opts), "x")
		for want, n := range map[error]int{full: 100, io.ErrShortWrite: 10} {
			written, err := x.WriteTo(failingWriter{n, want})
			if err != want || written != int64(n) {
				t.Errorf("NoMap %v: %d bytes, %v; want %d, %v", opts != nil, written, err, n, want)
			}
		}
	}
}

type failingWriter struct {
	n   int
	err error
}

func (w failingWriter) Write([]byte) (int, error) { return w.n, w.err }
