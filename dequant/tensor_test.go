package dequant

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// wholeTensor is a tensor of n elements of an aprender type, and its values by the oracle.
func wholeTensor(d layout.DType, n int) (src []byte, want []float32) {
	size, err := d.Size([]uint64{uint64(n)})
	if err != nil {
		panic(err)
	}
	src = randomBytes(rand.New(rand.NewPCG(9, uint64(n))), int(size))
	if d == layout.APR_Q4 {
		for at := 1; at < len(src); at += 18 {
			src[at] = src[at]&0x83 | 0x30 // plain scales
		}
		return src, reference(d, src)[:n]
	}
	if n > 0 {
		scale := float32(-0.37)
		binary.LittleEndian.PutUint32(src, math.Float32bits(scale))
		for _, q := range src[4:] {
			want = append(want, mul(float32(int8(q)), scale))
		}
	}
	return src, want
}

var aprTypes = []layout.DType{layout.APR_Q4, layout.APR_Q8}

func TestExpandTensor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	eachLevel(t, func(t *testing.T) {
		for _, d := range aprTypes {
			for _, n := range []int{0, 1, 2, 31, 32, 33, 63, 64, 65, 1000, 4096, parallelMin - 1, parallelMin + 3*parallelGrain + 7} {
				src, want := wholeTensor(d, n)
				for name, f := range map[string]func(layout.DType, []float32, []byte) error{
					"Expand": Expand, "ExpandParallel": ExpandParallel,
				} {
					got := make([]float32, n)
					if err := f(d, got, src); err != nil {
						t.Fatalf("%s of %d: %v", name, n, err)
					}
					if i := differ(d, got, want); i >= 0 {
						t.Errorf("%s of %d %v: element %d is %v, want %v", name, n, d, i, got[i], want[i])
					}
				}
			}
		}
	})
}

func TestExpandTensorRange(t *testing.T) {
	for _, d := range aprTypes {
		src, want := wholeTensor(d, 75)
		for first := range 76 {
			for n := range 76 - first {
				got := make([]float32, n)
				if err := ExpandRange(d, got, src, first); err != nil {
					t.Fatal(err)
				}
				if i := differ(d, got, want[first:first+n]); i >= 0 {
					t.Errorf("%v: [%d, +%d): element %d is %v", d, first, n, i, got[i])
				}
			}
		}
	}
	src, _ := wholeTensor(layout.APR_Q8, 5)
	for _, bad := range []struct{ first, n, size int }{
		{0, 6, 9}, {5, 1, 9}, {6, 0, 9}, {-1, 1, 9}, {math.MaxInt, 1, 9}, {math.MaxInt, 0, 9}, {0, 1, 4}, {0, 1, 3}, {0, 1, 0}, {1, 0, 2},
	} {
		if err := ExpandRange(layout.APR_Q8, make([]float32, bad.n), src[:bad.size], bad.first); !errors.Is(err, ErrLength) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := ExpandRange(layout.APR_Q8, nil, nil, 0); err != nil {
		t.Error(err)
	}
}

func TestExpandTensorLengths(t *testing.T) {
	for _, tt := range []struct {
		d           layout.DType
		elems, size int
		want        string
	}{
		{layout.APR_Q4, 33, 18, "APR_Q4: 33 elements take 36 bytes, not 18"},
		{layout.APR_Q4, 32, 36, "APR_Q4: 32 elements take 18 bytes, not 36"},
		{layout.APR_Q4, 0, 18, "APR_Q4: 0 elements take 0 bytes, not 18"},
		{layout.APR_Q8, 5, 5, "APR_Q8: 5 elements take 9 bytes, not 5"},
		{layout.APR_Q8, 5, 10, "APR_Q8: 5 elements take 9 bytes, not 10"},
		{layout.APR_Q8, 0, 4, "APR_Q8: 0 elements take 0 bytes, not 4"},
		{layout.APR_Q8, 1, 0, "APR_Q8: 1 elements take 5 bytes, not 0"},
	} {
		dst, src := make([]float32, tt.elems), make([]byte, tt.size)
		for _, err := range []error{Expand(tt.d, dst, src), ExpandParallel(tt.d, dst, src)} {
			if !errors.Is(err, ErrLength) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		}
	}
	for _, d := range aprTypes {
		if !Supported(d) || CanQuantize(d) {
			t.Errorf("%v: Supported %t, CanQuantize %t", d, Supported(d), CanQuantize(d))
		}
	}
}

func TestReadHead(t *testing.T) {
	if d, q := ReadHead(layout.APR_Q8, []byte{0, 0, 0xc0, 0xbf}); d != layout.I8 || q != (layout.Quant{Scale: -1.5}) {
		t.Errorf("APR_Q8: %v, %v", d, q)
	}
	for _, d := range types {
		if elems, q := ReadHead(d, nil); elems != d || q != (layout.Quant{}) {
			t.Errorf("%v: %v, %v", d, elems, q)
		}
	}
	got := make([]float32, 1)
	if err := Expand(layout.APR_Q8, got, []byte{0, 0, 0xc0, 0xbf, 0xfe}); err != nil || got[0] != 3 {
		t.Errorf("-1.5 × -2 = %v, %v", got[0], err)
	}
}

// TestExpandTensorAllocatesNothing: neither does a padded block, nor a head.
func TestExpandTensorAllocatesNothing(t *testing.T) {
	skipInstrumented(t)
	for _, d := range aprTypes {
		src, want := wholeTensor(d, 75)
		if n := testing.AllocsPerRun(100, func() { Expand(d, want, src); ExpandRange(d, want[:9], src, 5) }); n != 0 {
			t.Errorf("%v: %v allocations", d, n)
		}
	}
}
