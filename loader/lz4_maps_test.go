//go:build unix || windows

package loader_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestCompressedLost cuts the file off under the model.
func TestCompressedLost(t *testing.T) {
	file := lz4Model(t, compressible("x", layout.Q8_0, 1024, 1024))
	page := int64(os.Getpagesize())
	for _, left := range []int64{page, int64(len(file)) / 2 / page * page} {
		for noMap, want := range shrunk {
			fails := func(name string, read func(x loader.Tensor) error) {
				t.Helper()
				x := tensor(t, openTruncated(t, file, left, &loader.Options{NoMap: noMap}), "x")
				for range 2 {
					if err := read(x); !errors.Is(err, want) {
						t.Errorf("NoMap %v, %d bytes left: %s: %v", noMap, left, name, err)
					}
				}
			}
			for name, read := range readers {
				switch name {
				case "DequantizeRows", "DequantizeRange": // of what may be left
					last := uint64(1<<20 - 1)
					read = func(x loader.Tensor) error { return x.DequantizeRange(make([]float32, 1), last) }
				}
				fails(name, read)
			}
			fails("Bytes", func(x loader.Tensor) error { _, err := x.Bytes(); return err })
			fails("Float32s", func(x loader.Tensor) error { _, err := x.Float32s(); return err })
			fails("WriteDecrypted", func(x loader.Tensor) error { _, err := x.WriteDecrypted(new(bytes.Buffer)); return err })
		}
	}
}
