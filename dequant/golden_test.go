package dequant

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

func TestGoldenExpand(t *testing.T) { goldenExpand(t, ".gold", 34) }

// TestExpandAsGGML reads the files that ggml's own C has made
// (testdata/README.md). bench/peers compares many more blocks where a C compiler is at hand.
func TestExpandAsGGML(t *testing.T) { goldenExpand(t, ".ggml", 28) }

func goldenExpand(t *testing.T, ext string, atLeast int) {
	eachLevel(t, func(t *testing.T) {
		kerneltest.EachRecorded(t, ext, atLeast, func(t *testing.T, d layout.DType, in, out []byte) {
			want := kerneltest.Floats(out)
			got := make([]float32, len(want))
			if err := Expand(d, got, in); err != nil {
				t.Fatal(err)
			}
			if d == layout.F8_E4M3 || d == layout.F8_E5M2 {
				quietNaNs(got) // as ml_dtypes does
			}
			if i := differ(d, got, want); i >= 0 {
				t.Errorf("element %d: %08x (%v), want %08x (%v)", i,
					math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
			}
		})
	})
}

// quietNaNs leaves NaNs only the sign and the quiet bit.
func quietNaNs(f []float32) {
	for i, v := range f {
		if v != v {
			f[i] = math.Float32frombits(math.Float32bits(v)&(1<<31) | 0x7fc00000)
		}
	}
}

// TestGoldenScaled reads records of a scale, a zero point and 256 integers.
func TestGoldenScaled(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		kerneltest.EachRecorded(t, ".scaled", 4, func(t *testing.T, d layout.DType, in, out []byte) {
			got := make([]float32, 256)
			for want := kerneltest.Floats(out); len(want) > 0; want = want[256:] {
				scale := math.Float32frombits(binary.LittleEndian.Uint32(in))
				zero := int64(binary.LittleEndian.Uint64(in[4:]))
				size := 256 * d.BlockBytes()
				if err := integers(d, scale, zero).Expand(got, in[12:12+size], 0, 1); err != nil {
					t.Fatal(err)
				}
				if i := differ(d, got, want[:256]); i >= 0 {
					t.Errorf("scale %v, zero point %d: element %d is %v, want %v", scale, zero, i, got[i], want[i])
				}
				in = in[12+size:]
			}
			if len(in) != 0 {
				t.Errorf("%d bytes of input without output", len(in))
			}
		})
	})
}
