package dequant

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// FuzzFloats, FuzzInts, FuzzBlocks, FuzzK and FuzzIQ expand any bytes as types of one family with every
// implementation, whole and in part, and expect what the portable loop gives.
func FuzzFloats(f *testing.F) {
	fuzzExpand(f, layout.F32, layout.F16, layout.BF16, layout.F64, layout.F8_E4M3, layout.F8_E5M2)
}

func FuzzInts(f *testing.F) {
	fuzzExpand(f, layout.I8, layout.I16, layout.I32, layout.I64, layout.U8, layout.U16, layout.U32, layout.U64, layout.BOOL)
}

func FuzzBlocks(f *testing.F) {
	fuzzExpand(f, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1, layout.Q8_0, layout.Q8_1, layout.IQ4_NL, layout.MXFP4, layout.NVFP4, layout.Q1_0, layout.Q2_0)
}

func FuzzK(f *testing.F) {
	fuzzExpand(f, layout.Q2_K, layout.Q3_K, layout.Q4_K, layout.Q5_K, layout.Q6_K, layout.IQ4_XS, layout.Q8_K)
}

func FuzzIQ(f *testing.F) {
	fuzzExpand(f, layout.IQ2_XXS, layout.IQ2_XS, layout.IQ2_S, layout.IQ3_XXS, layout.IQ3_S, layout.IQ1_S, layout.IQ1_M, layout.TQ1_0, layout.TQ2_0)
}

func fuzzExpand(f *testing.F, family ...layout.DType) {
	for i, d := range family {
		in := inputs(d)
		f.Add(in[:3*d.BlockBytes()], uint8(i), uint16(0), uint16(5))
		f.Add(in[len(in)-5*d.BlockBytes():], uint8(i), uint16(7), uint16(70))
	}
	f.Fuzz(func(t *testing.T, src []byte, which uint8, first, n uint16) {
		d := family[int(which)%len(family)]
		// Any length is answered, not only those that fit.
		wrong := make([]float32, n)
		if err := Expand(d, wrong, src); (err == nil) != (int(n)%d.BlockElems() == 0 && len(src) == int(n)/d.BlockElems()*d.BlockBytes()) {
			t.Fatalf("%v: %d elements, %d bytes: %v", d, n, len(src), err)
		}
		src = src[:len(src)/d.BlockBytes()*d.BlockBytes()]
		want := reference(d, src)
		for _, l := range levels {
			use(t, l)
			got := make([]float32, len(want))
			if err := Expand(d, got, src); err != nil {
				t.Fatal(err)
			}
			if i := differ(d, got, want); i >= 0 {
				t.Fatalf("%s/%v: element %d is %v, want %v", l.name, d, i, got[i], want[i])
			}
			inside := n == 0 || int(first)+int(n) <= len(want)
			part := make([]float32, n)
			off, size := plain(d).ByteRange(uint64(first), uint64(n))
			off = min(off, uint64(len(src)))
			if err := plain(d).Expand(part, src[off:min(off+size, uint64(len(src)))], uint64(first), 1); (err == nil) != inside {
				t.Fatalf("%s/%v: [%d, +%d) of %d: %v", l.name, d, first, n, len(want), err)
			}
			if inside && n > 0 && differ(d, part, want[first:][:n]) >= 0 {
				t.Fatalf("%s/%v: [%d, +%d) differs", l.name, d, first, n)
			}
		}
	})
}
