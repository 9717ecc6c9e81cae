package dequant

import (
	"bytes"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// The files *.ggml and *.ggmlq were made by ggml's own C (testdata/README.md); bench/peers
// compares many more blocks where a C compiler is at hand.

func TestExpandAsGGML(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		eachGolden(t, ".ggml", 28, func(t *testing.T, d layout.DType, in, out []byte) {
			want := toFloats(out)
			got := make([]float32, len(want))
			if err := Expand(d, got, in); err != nil {
				t.Fatal(err)
			}
			if i := differ(d, got, want); i >= 0 {
				t.Errorf("element %d: %v, ggml has %v", i, got[i], want[i])
			}
		})
	})
}

func TestQuantizeAsGGML(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		eachGolden(t, ".ggmlq", 7, func(t *testing.T, d layout.DType, in, out []byte) {
			got := make([]byte, len(out))
			if err := Quantize(d, got, toFloats(in)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, out) {
				i := firstDifference(got, out)
				t.Errorf("block %d byte %d: %02x, ggml has %02x", i/d.BlockBytes(), i%d.BlockBytes(), got[i], out[i])
			}
		})
	})
}
