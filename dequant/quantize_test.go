package dequant

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/dequant/internal/block"
	"github.com/tensormap/tensormap/layout"

	"github.com/x448/float16"
)

// TestFloatToHalf compares with x448/float16 at every exponent, around every place where
// rounding decides, and at random.
func TestFloatToHalf(t *testing.T) {
	check := func(b uint32) {
		f := math.Float32frombits(b)
		if got, want := block.Half(f), float16.Fromfloat32(f).Bits(); got != want {
			t.Fatalf("%08x (%v): %04x, want %04x", b, f, got, want)
		}
	}
	for h := range uint32(1 << 16) { // every half, and between it and its neighbours
		b := math.Float32bits(block.Float(uint16(h)))
		for _, d := range []uint32{0, 1, 2, 0xffe, 0xfff, 0x1000, 0x1001, 0x1002, 0x1fff, 0x2000, 0x2001, 0x2002} {
			check(b + d)
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range 1_000_000 {
		check(rng.Uint32())
	}
	for e := range uint32(512) {
		for shift := range 24 {
			for d := range uint32(3) {
				check(e<<23 + 1<<shift + d - 1)
			}
		}
	}
}

// TestFloatToBrain rounds the exact way: of the two neighbours the nearer, and on a tie
// the even one.
func TestFloatToBrain(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for i := range 2_000_000 {
		b := rng.Uint32()
		if i&1 == 0 { // ties and their neighbours
			b = b&^0xffff | 0x8000 + uint32(i>>1%3) - 1
		}
		f, got := math.Float32frombits(b), floatToBrain(math.Float32frombits(b))
		if f != f {
			if want := uint16(b>>16) | 0x40; got != want {
				t.Fatalf("NaN %08x: %04x, want %04x", b, got, want)
			}
			continue
		}
		down := uint16(b >> 16)
		low := b & 0xffff
		want := down
		if low > 0x8000 || low == 0x8000 && down&1 == 1 {
			want++
		}
		if got != want {
			t.Fatalf("%08x: %04x, want %04x", b, got, want)
		}
	}
}

func TestRoundHalfAway(t *testing.T) {
	for _, x := range []float32{0, 0.49999997, 0.5, 0.50000006, 1.4999999, 1.5, 2.5, 126.5, 127, 8388607.5, 16777216} {
		for _, f := range []float32{x, -x} {
			if got, want := roundHalfAway(f), int32(math.Round(float64(f))); got != want {
				t.Errorf("%v: %d, want %d", f, got, want)
			}
		}
	}
	inf := float32(math.Inf(1))
	for _, f := range []float32{inf, -inf, inf - inf, 1 << 31, -1 << 31} {
		if roundHalfAway(f) != math.MinInt32 {
			t.Errorf("%v: %d", f, roundHalfAway(f))
		}
	}
}

// toInt8s quantizes a whole tensor with the scale that its values want.
func toInt8s(dst []byte, src []float32) (float32, error) {
	var s I8Scale
	s.Add(src)
	scale, err := s.Scale()
	if err != nil {
		return 0, err
	}
	return scale, integers(layout.I8, scale, 0).Quantize(dst, src, nil, 1)
}

func TestToI8(t *testing.T) {
	inf := float32(math.Inf(1))
	tests := []struct {
		src   []float32
		scale float32
		want  []int8
		err   error
	}{
		{src: nil, scale: 1},
		{src: []float32{0, 0}, scale: 1, want: []int8{0, 0}},
		{src: []float32{127, -127, 0.5, -0.5, 1.5, 2.5, 0.49}, scale: 1, want: []int8{127, -127, 1, -1, 2, 3, 0}},
		{src: []float32{-254, 3, 1}, scale: 2, want: []int8{-127, 2, 1}},
		{src: []float32{1e-45, 0}, scale: 1, want: []int8{0, 0}}, // the scale would be zero
		{src: []float32{1, inf}, err: ErrNotFinite},
		{src: []float32{1, -inf}, err: ErrNotFinite},
		{src: []float32{inf - inf, 1}, err: ErrNotFinite},
	}
	for _, tt := range tests {
		dst := make([]byte, len(tt.src))
		scale, err := toInt8s(dst, tt.src)
		if scale != tt.scale || !errors.Is(err, tt.err) {
			t.Errorf("%v: scale %v, %v", tt.src, scale, err)
			continue
		}
		for i, q := range tt.want {
			if int8(dst[i]) != q {
				t.Errorf("%v: element %d is %d, want %d", tt.src, i, int8(dst[i]), q)
			}
		}
	}
	// A subnormal scale is so coarse that quotients exceed 127.
	dst := make([]byte, 2)
	big := math.Float32frombits(190) // 190/127 rounds to 1 in the last place
	if scale, err := toInt8s(dst, []float32{big, -big}); err != nil || int8(dst[0]) != 127 || int8(dst[1]) != -127 {
		t.Errorf("%v %d %d %v", scale, int8(dst[0]), int8(dst[1]), err)
	}
}
