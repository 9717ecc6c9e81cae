package quantize

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

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
	var s Int8Scale
	s.Add(src)
	scale, err := s.Scale()
	if err != nil {
		return 0, err
	}
	return scale, Encode(int8s(scale), dst, src, nil, 1)
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
		{src: []float32{1, inf}, err: dequant.ErrNotFinite},
		{src: []float32{1, -inf}, err: dequant.ErrNotFinite},
		{src: []float32{inf - inf, 1}, err: dequant.ErrNotFinite},
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

// TestSupported lists the types by what refuses them.
func TestSupported(t *testing.T) {
	for d := range layout.DType(255) {
		c, err := dequant.NewCodec(d, layout.Quant{}, false)
		if err != nil && Supported(d) {
			t.Errorf("%v is not expanded: %v", d, err)
		}
		if err := Encode(c, nil, nil, nil, 1); Supported(d) != (err == nil) || err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v, Supported %t", d, err, Supported(d))
		}
	}
	for _, c := range []dequant.Codec{{}, plain(layout.I8), withScale(layout.I16, 1, 0), withScale(layout.I8, 1, 1)} {
		if err := Encode(c, nil, nil, nil, 1); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLengthErrors(t *testing.T) {
	for _, tt := range []struct {
		c           dequant.Codec
		elems, size int
		want        string // "" for none
	}{
		{plain(layout.Q4_0), 0, 0, ""},
		{plain(layout.Q4_0), 64, 36, ""},
		{plain(layout.Q4_0), 64, 35, "Q4_0: 64 elements take 36 bytes, not 35"},
		{plain(layout.Q4_0), 64, 54, "Q4_0: 64 elements take 36 bytes, not 54"},
		{plain(layout.Q4_0), 33, 18, "Q4_0: 33 elements are no multiple of the block of 32"},
		{plain(layout.Q4_0), 0, 18, "Q4_0: 0 elements take 0 bytes, not 18"},
		{plain(layout.F16), 3, 7, "F16: 3 elements take 6 bytes, not 7"},
		{plain(layout.Q6_K), 32, 210, "Q6_K: 32 elements are no multiple of the block of 256"},
		{int8s(1), 3, 2, "I8: 3 elements take 3 bytes, not 2"},
	} {
		for _, cores := range []int{1, dequant.AllCores} {
			err := Encode(tt.c, make([]byte, tt.size), make([]float32, tt.elems), nil, cores)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!errors.Is(err, dequant.ErrLength) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %s", err, tt.want)
			}
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	if testmode.Races() || testmode.ChecksPointers() {
		t.Skip("portable loops allocate then, and pools forget")
	}
	dst, src := make([]byte, 8*18), make([]float32, 256)
	for name, f := range map[string]func(){
		"Q4_0":            func() { Encode(plain(layout.Q4_0), dst, src, nil, 1) },
		"Q4_0, all cores": func() { Encode(plain(layout.Q4_0), dst, src, nil, dequant.AllCores) },
		"I8":              func() { Encode(int8s(0.5), dst, src[:144], nil, dequant.AllCores) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	src := floats(simd.ParallelMin + simd.ParallelGrain + 32)
	want, got := make([]byte, len(src)/32*34), make([]byte, len(src)/32*34)
	if err := errors.Join(Encode(plain(layout.Q8_0), want, src, nil, 1), Encode(plain(layout.Q8_0), got, src, nil, dequant.AllCores)); err != nil {
		t.Fatal(err)
	}
	if i := kerneltest.FirstDifference(got, want); i >= 0 {
		t.Errorf("Q8_0: byte %d differs", i)
	}
	want, got = make([]byte, len(src)), make([]byte, len(src))
	encodeI8Generic(want, src, 0.25)
	if err := Encode(int8s(0.25), got, src, nil, dequant.AllCores); err != nil {
		t.Fatal(err)
	}
	if i := kerneltest.FirstDifference(got, want); i >= 0 {
		t.Errorf("I8: byte %d differs", i)
	}
}
