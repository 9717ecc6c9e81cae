package apr2_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

// TestSizer compares with what a Writer says, tensor by tensor.
func TestSizer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	dtypes := []layout.DType{layout.U8, layout.F32, layout.F16, layout.I8, layout.BF16}
	for _, align := range []int{0, 32, 64} {
		for n := range 40 {
			md := layout.Metadata{{Key: "apr_version", Value: "2.0.0"}, {Key: "model_type", Value: fmt.Sprintf("%*s", n, "")}, {Key: "architecture", Value: layout.Metadata{}}}
			b, err := md.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			var tensors []layout.Tensor
			s := apr2.NewSizer(align, uint64(len(b)), nil)
			for i := range n + 1 {
				if i > 0 {
					x := layout.Tensor{Name: fmt.Appendf(nil, "%d%*s", i, rnd.IntN(40), "x"), DType: dtypes[rnd.IntN(len(dtypes))]}
					for range rnd.IntN(4) {
						x.Shape = append(x.Shape, rnd.IntN(10))
					}
					if x.DType == layout.U8 && rnd.IntN(2) == 0 {
						x.Shape = []int{1000}
						x.Encoding, x.Stored = layout.LZ4, 4+rnd.Uint64N(900)
					}
					tensors = append(tensors, x)
					s = s.With(&x, 0)
				}
				w, err := apr2.NewWriter(io.Discard, slices.Values(tensors), &apr2.Options{Align: align, Metadata: md})
				if err != nil {
					t.Fatal(err)
				}
				if s.Size() != w.Size() {
					t.Fatalf("align %d, %d tensors: %d bytes, the file has %d", align, i, s.Size(), w.Size())
				}
			}
		}
	}
}

// TestSizerOfUnknown: a tensor whose compressed size is not known counts as raw.
func TestSizerOfUnknown(t *testing.T) {
	x := layout.Tensor{Name: []byte("x"), DType: layout.F32, Shape: []int{1000}}
	raw := apr2.NewSizer(64, 0, nil).With(&x, 0).Size()
	x.Encoding = layout.LZ4
	if n := apr2.NewSizer(64, 0, nil).With(&x, 0).Size(); n != raw || n < 4000 {
		t.Errorf("%d bytes, raw %d", n, raw)
	}
}

func TestSizerOverflow(t *testing.T) {
	x := layout.Tensor{Name: []byte("x"), DType: layout.U8, Shape: []int{1 << 30, 1 << 30, 15}}
	s := apr2.NewSizer(64, 0, nil)
	for range 3 {
		s = s.With(&x, 0)
	}
	if n := s.Size(); n != math.MaxUint64 {
		t.Error(n)
	}
	if n := apr2.NewSizer(64, math.MaxUint64, nil).Size(); n != math.MaxUint64 {
		t.Error(n)
	}
}
