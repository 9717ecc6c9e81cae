package dequant

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/testmode"
	"github.com/tensormap/tensormap/layout"
)

// eachGolden runs f with the input and output of every file of testdata with this extension.
func eachGolden(t *testing.T, ext string, atLeast int, f func(t *testing.T, d layout.DType, in, out []byte)) {
	files, err := filepath.Glob("testdata/*" + ext)
	if err != nil || len(files) < atLeast {
		t.Fatalf("%d files %s in testdata, want %d or more (%v)", len(files), ext, atLeast, err)
	}
	for _, name := range files {
		d, ok := layout.ParseDType(strings.TrimSuffix(filepath.Base(name), ext))
		if !ok {
			t.Fatalf("%s names no type", name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.LittleEndian.Uint32(b)
		t.Run(d.String(), func(t *testing.T) { f(t, d, b[4:4+n], b[4+n:]) })
	}
}

func toFloats(b []byte) []float32 {
	f := make([]float32, len(b)/4)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return f
}

func TestGoldenExpand(t *testing.T) { goldenExpand(t, ".gold", 34) }

// TestExpandAsGGML and TestQuantizeAsGGML read the files that ggml's own C has made
// (testdata/README.md). bench/peers compares many more blocks where a C compiler is at hand.
func TestExpandAsGGML(t *testing.T) { goldenExpand(t, ".ggml", 28) }

func goldenExpand(t *testing.T, ext string, atLeast int) {
	eachLevel(t, func(t *testing.T) {
		eachGolden(t, ext, atLeast, func(t *testing.T, d layout.DType, in, out []byte) {
			want := toFloats(out)
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
		eachGolden(t, ".scaled", 4, func(t *testing.T, d layout.DType, in, out []byte) {
			got := make([]float32, 256)
			for want := toFloats(out); len(want) > 0; want = want[256:] {
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

func TestGoldenQuantize(t *testing.T) { goldenQuantize(t, ".quant", 7) }

func TestQuantizeAsGGML(t *testing.T) { goldenQuantize(t, ".ggmlq", 15) }

// TestQuantizeByImportanceAsGGML reads files with the importance of 1,024 columns before the floats. All cores share rows out the
// same at every level.
func TestQuantizeByImportanceAsGGML(t *testing.T) {
	t.Run("all cores", func(t *testing.T) { quantizeRowsAsGGML(t, AllCores, parallelMin+parallelGrain) })
	if !testmode.Races() {
		eachLevel(t, func(t *testing.T) { quantizeRowsAsGGML(t, 1, 0) })
	}
}

// quantizeRowsAsGGML quantizes the rows of each file as often as it takes to have more than least elements.
func quantizeRowsAsGGML(t *testing.T, cores, least int) {
	eachGolden(t, ".ggmlw", 12, func(t *testing.T, d layout.DType, in, out []byte) {
		if !encodes(d) {
			return
		}
		importance, src := toFloats(in)[:1024], toFloats(in)[1024:]
		rows := 1 + least/len(src)
		want, x := bytes.Repeat(out, rows), slices.Repeat(src, rows)
		got := make([]byte, len(want))
		if err := plain(d).Quantize(got, x, importance, cores); err != nil {
			t.Fatal(err)
		}
		if i := firstDifference(got, want); i >= 0 {
			t.Errorf("%d cores: byte %d of %d", cores, i, len(want))
		}
		clear(got)
		if _, err := plain(d).QuantizeLoss(got, x, importance, make([]float32, len(x)), cores); err != nil || !bytes.Equal(got, want) {
			t.Errorf("QuantizeLoss on %d cores: %v", cores, err)
		}
	})
}

// TestQuantizeRefuses importance that does not fit the rows.
func TestQuantizeRefuses(t *testing.T) {
	dst, src := make([]byte, 144), make([]float32, 256)
	for _, n := range []int{0, 32, 255, 512} {
		if err := plain(layout.Q4_K).Quantize(dst, src, make([]float32, n), 1); !errors.Is(err, ErrLength) {
			t.Errorf("%d weights for rows of 256: %v", n, err)
		}
	}
	if err := plain(layout.Q4_K).Quantize(dst, src, nil, 1); err != nil {
		t.Error(err)
	}
}

func goldenQuantize(t *testing.T, ext string, atLeast int) {
	eachLevel(t, func(t *testing.T) {
		eachGolden(t, ext, atLeast, func(t *testing.T, d layout.DType, in, out []byte) {
			src := toFloats(in)
			got := make([]byte, len(out))
			if err := plain(d).Quantize(got, src, nil, 1); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, out) {
				i := firstDifference(got, out)
				b := i / d.BlockBytes()
				t.Errorf("block %d of %v:\n% x, want\n% x", b, src[b*d.BlockElems():][:d.BlockElems()],
					got[b*d.BlockBytes():][:d.BlockBytes()], out[b*d.BlockBytes():][:d.BlockBytes()])
			}
		})
	})
}
