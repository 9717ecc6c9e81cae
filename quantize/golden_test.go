package quantize

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// TestGolden and TestAsGGML read the files that Python's gguf and ggml's own C have made (testdata/README.md). bench/peers
// compares many more blocks where a C compiler is at hand.
func TestGolden(t *testing.T) { golden(t, ".quant", 7) }

func TestAsGGML(t *testing.T) { golden(t, ".ggmlq", 15) }

// TestByImportanceAsGGML reads files with the importance of 1,024 columns before the floats. All cores share rows out the
// same at every level.
func TestByImportanceAsGGML(t *testing.T) {
	t.Run("all cores", func(t *testing.T) { rowsAsGGML(t, dequant.AllCores, simd.ParallelMin+simd.ParallelGrain) })
	if !testmode.Races() {
		eachLevel(t, func(t *testing.T) { rowsAsGGML(t, 1, 0) })
	}
}

// rowsAsGGML quantizes the rows of each file as often as it takes to have more than least elements.
func rowsAsGGML(t *testing.T, cores, least int) {
	kerneltest.EachRecorded(t, ".ggmlw", 12, func(t *testing.T, d layout.DType, in, out []byte) {
		if !encodes(d) {
			return
		}
		importance, src := kerneltest.Floats(in)[:1024], kerneltest.Floats(in)[1024:]
		rows := 1 + least/len(src)
		want, x := bytes.Repeat(out, rows), slices.Repeat(src, rows)
		got := make([]byte, len(want))
		if err := Encode(plain(d), got, x, importance, cores); err != nil {
			t.Fatal(err)
		}
		if i := kerneltest.FirstDifference(got, want); i >= 0 {
			t.Errorf("%d cores: byte %d of %d", cores, i, len(want))
		}
		clear(got)
		if _, err := EncodeLoss(plain(d), got, x, importance, make([]float32, len(x)), cores); err != nil || !bytes.Equal(got, want) {
			t.Errorf("EncodeLoss on %d cores: %v", cores, err)
		}
	})
}

// TestRefuses importance that does not fit the rows.
func TestRefuses(t *testing.T) {
	dst, src := make([]byte, 144), make([]float32, 256)
	for _, n := range []int{0, 32, 255, 512} {
		if err := Encode(plain(layout.Q4_K), dst, src, make([]float32, n), 1); !errors.Is(err, dequant.ErrLength) {
			t.Errorf("%d weights for rows of 256: %v", n, err)
		}
	}
	if err := Encode(plain(layout.Q4_K), dst, src, nil, 1); err != nil {
		t.Error(err)
	}
}

func golden(t *testing.T, ext string, atLeast int) {
	eachLevel(t, func(t *testing.T) {
		kerneltest.EachRecorded(t, ext, atLeast, func(t *testing.T, d layout.DType, in, out []byte) {
			src := kerneltest.Floats(in)
			got := make([]byte, len(out))
			if err := Encode(plain(d), got, src, nil, 1); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, out) {
				i := kerneltest.FirstDifference(got, out)
				b := i / d.BlockBytes()
				t.Errorf("block %d of %v:\n% x, want\n% x", b, src[b*d.BlockElems():][:d.BlockElems()],
					got[b*d.BlockBytes():][:d.BlockBytes()], out[b*d.BlockBytes():][:d.BlockBytes()])
			}
		})
	})
}
