package quantize

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// TestWeighedEvenly: a block whose columns have no importance, or one whose sums leave float32, gets the bytes of columns that
// are as important. ggml, whose bytes these are, gives such to a matrix that met no input (tools/quantize/quantize.cpp,
// load_imatrix). All other blocks keep the bytes of their importance.
func TestWeighedEvenly(t *testing.T) {
	const columns, bad = 1024, 256 // of the latter from 512 on
	rng := rand.New(rand.NewPCG(83, 83))
	x, usual := make([]float32, 3*columns), make([]float32, columns)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) / 8
	}
	for i := range usual {
		usual[i] = float32(math.Pow(rng.NormFloat64(), 2))
	}
	ones := slices.Repeat([]float32{1}, columns)
	eachLevel(t, func(t *testing.T) {
		for d := range searched {
			if searched[d].encode == nil {
				continue
			}
			d := layout.DType(d)
			size, elems := d.BlockBytes(), d.BlockElems()
			quantize := func(importance []float32) ([]byte, Loss) {
				dst := make([]byte, len(x)/elems*size)
				loss, err := EncodeLoss(plain(d), dst, x, importance, make([]float32, len(x)), 1)
				if err != nil {
					t.Fatal(err)
				}
				return dst, loss
			}
			even, none := quantize(ones)
			right, none2 := quantize(usual)
			if none.Even+none2.Even != 0 {
				t.Errorf("%v: %d and %d blocks weighed evenly", d, none.Even, none2.Even)
			}
			for _, w := range []float32{0, 1e-45, 1e-42, 1e34, math.MaxFloat32} {
				importance := slices.Clone(usual)
				for i := range bad {
					importance[512+i] = w
				}
				got, loss := quantize(importance)
				for at := 0; at < len(got); at += size {
					want := right[at:][:size]
					if column := at / size * elems % columns; column >= 512 && column < 512+bad {
						want = even[at:][:size]
					}
					if !bytes.Equal(got[at:][:size], want) {
						t.Fatalf("%v by %v: block %d has other bytes", d, w, at/size)
					}
				}
				if want := uint64(3 * bad / elems); loss.Even != want || loss.Err() != nil || loss.ZeroBlocks != 0 {
					t.Errorf("%v by %v: %+v, want %d weighed evenly", d, w, loss, want)
				}
			}
			one := slices.Clone(usual) // whose block alone is spoilt
			one[700] = 1e36
			if _, loss := quantize(one); loss.Even != 3 || loss.Err() != nil {
				t.Errorf("%v: one column: %+v", d, loss)
			}
		}
	})
}

// TestSpoilt: weights that no scale holds are not called quantized, by whatever type, with importance or without.
func TestSpoilt(t *testing.T) {
	testmode.Sequential(t)
	src := make([]float32, 256)
	for i := range src {
		src[i] = float32(i-100) * 1e6
	}
	inf := slices.Clone(src)
	inf[0] = float32(math.Inf(1))
	importance := slices.Repeat([]float32{1}, 256)
	for _, d := range types {
		if !Supported(d) {
			continue
		}
		for i, x := range [][]float32{src, inf} {
			for _, weights := range [][]float32{nil, importance, make([]float32, 256)} {
				dst, scratch := make([]byte, 256/d.BlockElems()*d.BlockBytes()), make([]float32, 256)
				loss, err := EncodeLoss(plain(d), dst, x, weights, scratch, 1)
				if err != nil {
					t.Fatal(err)
				}
				if err := dequant.Expand(d, scratch, dst); err != nil {
					t.Fatal(err)
				}
				became := false // what no number may become
				for i, f := range scratch {
					became = became || f != f || d.BlockElems() > 1 && isFinite(x[i]) && !isFinite(f)
				}
				if became != (loss.Spoilt > 0) || became != errors.Is(loss.Err(), dequant.ErrNotFinite) {
					t.Errorf("%v: spoilt %t, but %v, %+v", d, became, loss.Err(), loss)
				}
				if i == 0 && !became && slices.Contains([]layout.DType{layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1, layout.Q8_0, layout.IQ4_NL}, d) {
					t.Errorf("%v: holds %v", d, scratch[:4])
				}
			}
		}
	}
}
