package quantize

import (
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

// FuzzEncode quantizes any floats with every implementation.
func FuzzEncode(f *testing.F) {
	family := types[1:] // all but F32
	for i := range family {
		src := make([]byte, 4*max(64, family[i].BlockElems()))
		encodeF32Generic(src, floats(20000)[19000:])
		f.Add(src, uint8(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, which uint8) {
		d := family[int(which)%len(family)]
		src := kerneltest.Floats(b)
		src = src[:len(src)/d.BlockElems()*d.BlockElems()]
		want := make([]byte, len(src)/d.BlockElems()*d.BlockBytes())
		encodeGeneric(d, want, src)
		for _, l := range levels {
			use(t, l)
			got := make([]byte, len(want))
			if err := Encode(plain(d), got, src, nil, 1); err != nil {
				t.Fatal(err)
			}
			if i := kerneltest.FirstDifference(got, want); i >= 0 {
				t.Fatalf("%s/%v: byte %d is %#x, want %#x", l.name, d, i, got[i], want[i])
			}
		}
	})
}
