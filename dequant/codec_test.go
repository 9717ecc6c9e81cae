package dequant

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// wholeTensor is a tensor of n elements of an aprender type, and its values by the oracle.
func wholeTensor(d layout.DType, n int) (src []byte, want []float32) {
	size, err := d.Size([]int{n})
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

func must(c Codec, err error) Codec {
	if err != nil {
		panic(err)
	}
	return c
}

func plain(d layout.DType) Codec { return must(NewCodec(d, layout.Quant{}, false)) }

func integers(d layout.DType, scale float32, zero int64) Codec {
	return must(NewCodec(d, layout.Quant{Scale: scale, Zero: zero}, true))
}

// TestCodecRange takes ranges that begin and end anywhere in blocks, far from the tensor's
// beginning too.
func TestCodecRange(t *testing.T) {
	testmode.Sequential(t)
	eachLevel(t, func(t *testing.T) {
		for _, d := range types {
			c, elems, size := plain(d), d.BlockElems(), d.BlockBytes()
			src := randomBytes(rand.New(rand.NewPCG(7, uint64(d))), max(4, 100/elems)*size)
			all := reference(d, src)
			far := math.MaxUint64/maxBlock*maxBlock - uint64(len(all))/maxBlock*maxBlock
			step := max(1, elems/32*7)
			for first := 0; first <= len(all); first += step {
				for n := 0; first+n <= len(all); n += step + 2 {
					got := make([]float32, n)
					off, size := c.ByteRange(uint64(first), uint64(n))
					for _, at := range []uint64{uint64(first), far + uint64(first)} {
						if err := c.Expand(got, src[off:][:size], at, 1); err != nil {
							t.Fatal(err)
						}
						if i := differ(d, got, all[first:first+n]); i >= 0 {
							t.Fatalf("%v: [%d, +%d): element %d is %v", d, at, n, i, got[i])
						}
					}
				}
			}
		}
	})
}

func TestCodecLengths(t *testing.T) {
	for _, tt := range []struct {
		d     layout.DType
		first uint64
		n     int
		size  int
		want  string
	}{
		{layout.Q4_0, 0, 64, 35, "Q4_0: elements 0 to 64 are 2 blocks of 18 bytes, not 35 bytes"},
		{layout.Q4_0, 0, 33, 18, "Q4_0: elements 0 to 33 are 2 blocks"},
		{layout.Q4_0, 1, 32, 18, "Q4_0: elements 1 to 33 are 2 blocks"},
		{layout.Q4_0, 32, 32, 36, "Q4_0: elements 32 to 64 are 1 blocks"},
		{layout.Q4_0, 31, 0, 18, "Q4_0: elements 31 to 31 are 0 blocks"},
		{layout.Q6_K, math.MaxUint64, 1, 0, "are 1 blocks of 210 bytes, not 0"},
		{layout.F16, 3, 3, 7, "F16: elements 3 to 6 are 3 blocks of 2 bytes, not 7"},
	} {
		for _, cores := range []int{1, AllCores} {
			err := plain(tt.d).Expand(make([]float32, tt.n), make([]byte, tt.size), tt.first, cores)
			if !errors.Is(err, ErrLength) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		}
	}
	if err := integers(layout.I16, 1, 0).Expand(make([]float32, 2), make([]byte, 3), 0, 1); !errors.Is(err, ErrLength) {
		t.Error(err)
	}
}

// TestCodecParallel shares out ranges that begin and end inside blocks.
func TestCodecParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, d := range []layout.DType{layout.F16, layout.Q4_0, layout.Q6_K} {
		c := plain(d)
		src := randomBytes(rand.New(rand.NewPCG(8, uint64(d))), (simd.ParallelMin+3*simd.ParallelGrain)/d.BlockElems()*d.BlockBytes())
		all := reference(d, src)
		for _, first := range []int{0, 1, 31, 255, 256, simd.ParallelGrain - 1} {
			for _, n := range []int{simd.ParallelMin, simd.ParallelMin + simd.ParallelGrain + 7, len(all) - first} {
				off, size := c.ByteRange(uint64(first), uint64(n))
				for _, cores := range []int{2, 3, AllCores} {
					got := make([]float32, n)
					if err := c.Expand(got, src[off:][:size], uint64(first), cores); err != nil {
						t.Fatal(err)
					}
					if i := differ(d, got, all[first:first+n]); i >= 0 {
						t.Fatalf("%v: [%d, +%d) on %d cores: element %d is %v", d, first, n, cores, i, got[i])
					}
				}
			}
		}
	}
}

// expandBehind expands a whole tensor by the codec that its head gives, on all cores.
func expandBehind(d layout.DType, dst []float32, src []byte) error {
	c, err := ReadHead(d, append(src, make([]byte, d.HeadBytes())...)) // an empty tensor has none
	if err != nil {
		return err
	}
	off, size := c.ByteRange(0, uint64(len(dst)))
	return c.Expand(dst, src[min(off, uint64(len(src))):][:size], 0, AllCores)
}

func TestExpandTensor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	eachLevel(t, func(t *testing.T) {
		for _, d := range aprTypes {
			for _, n := range []int{0, 1, 2, 31, 32, 33, 63, 64, 65, 1000, 4096, simd.ParallelMin - 1, simd.ParallelMin + 3*simd.ParallelGrain + 7} {
				src, want := wholeTensor(d, n)
				for name, f := range map[string]func(layout.DType, []float32, []byte) error{
					"Expand": Expand, "ReadHead": expandBehind,
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
				c := must(ReadHead(d, src))
				off, size := c.ByteRange(uint64(first), uint64(n))
				if err := c.Expand(got, src[off:][:size], uint64(first), 1); err != nil {
					t.Fatal(err)
				}
				if i := differ(d, got, want[first:first+n]); i >= 0 {
					t.Errorf("%v: [%d, +%d): element %d is %v", d, first, n, i, got[i])
				}
			}
		}
	}
	c := must(ReadHead(layout.APR_Q8, make([]byte, 4)))
	if err := c.Expand(make([]float32, 5), make([]byte, 9), 0, 1); !errors.Is(err, ErrLength) {
		t.Errorf("with the head: %v", err)
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
		if err := Expand(tt.d, dst, src); !errors.Is(err, ErrLength) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	for _, d := range aprTypes {
		if !Supported(d) {
			t.Errorf("%v is not supported", d)
		}
	}
}

func TestReadHead(t *testing.T) {
	d, q, scaled := must(ReadHead(layout.APR_Q8, []byte{0, 0, 0xc0, 0xbf, 7})).Elements()
	if d != layout.I8 || q != (layout.Quant{Scale: -1.5}) || !scaled {
		t.Errorf("APR_Q8: %v, %v, %t", d, q, scaled)
	}
	for _, d := range types {
		if elems, q, scaled := must(ReadHead(d, nil)).Elements(); elems != d || q != (layout.Quant{}) || scaled {
			t.Errorf("%v: %v, %v, %t", d, elems, q, scaled)
		}
	}
	if _, err := ReadHead(layout.APR_Q8, make([]byte, 3)); !errors.Is(err, ErrLength) {
		t.Error(err)
	}
	for _, scaled := range []bool{false, true} {
		if _, err := NewCodec(layout.APR_Q8, layout.Quant{Scale: 1}, scaled); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("without a head: %v", err)
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
		c := must(ReadHead(d, src))
		off, size := c.ByteRange(5, 9)
		if n := testing.AllocsPerRun(100, func() { Expand(d, want, src); c.Expand(want[:9], src[off:][:size], 5, AllCores) }); n != 0 {
			t.Errorf("%v: %v allocations", d, n)
		}
	}
}
