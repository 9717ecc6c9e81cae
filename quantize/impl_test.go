package quantize

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// use makes l, over the levels below it, the active implementation until the test ends.
func use(t testing.TB, l *impl) {
	old := active
	active = overlay(levels[:slices.Index(levels, l)+1])
	t.Cleanup(func() { active = old })
}

// encodes reports whether the level in use has something of its own for writing d. Otherwise it does what the level below does.
func encodes(d layout.DType) bool {
	l := levels[slices.IndexFunc(levels, func(l *impl) bool { return l.name == active.name })]
	return l.encode[d].run != nil || l.fit.affine != nil
}

// encodeGeneric encodes with the portable loops alone.
func encodeGeneric(d layout.DType, dst []byte, src []float32) {
	old := active
	defer func() { active = old }()
	active = &generic
	generic.encode[d].run(dst, src)
}

// encoderOf returns the encoder of a level, or none if it has no kernel for it.
func (l *impl) encoderOf(d layout.DType) encoder {
	if searches := searched[d].encode != nil && generic.encode[d].run != nil && l.encode[d].run == nil; !searches || l == &generic {
		return l.encode[d]
	} else if l.fit.affine == nil || d <= layout.Q8_0 {
		return encoder{}
	}
	return encoder{run: func(dst []byte, src []float32) {
		old := active
		defer func() { active = old }()
		active = overlay([]*impl{&generic, l})
		generic.encode[d].run(dst, src)
	}}
}

// eachLevel runs f under every implementation that this machine has.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	for _, l := range levels {
		t.Run(l.name, func(t *testing.T) {
			use(t, l)
			f(t)
		})
	}
}

// types are all that the package supports.
var types = func() (ds []layout.DType) {
	for d := range layout.DType(numTypes) {
		if Supported(d) {
			ds = append(ds, d)
		}
	}
	return ds
}()

func must(c dequant.Codec, err error) dequant.Codec {
	if err != nil {
		panic(err)
	}
	return c
}

func plain(d layout.DType) dequant.Codec { return must(dequant.NewCodec(d, layout.Quant{}, false)) }

func withScale(d layout.DType, scale float32, zero int64) dequant.Codec {
	return must(dequant.NewCodec(d, layout.Quant{Scale: scale, Zero: zero}, true))
}

func int8s(scale float32) dequant.Codec { return withScale(layout.I8, scale, 0) }

// TestEncoders holds every encoder against the portable one: edges, lengths, guards.
func TestEncoders(t *testing.T) {
	testmode.Sequential(t)
	eachLevel(t, func(t *testing.T) {
		for _, d := range types {
			if !encodes(d) {
				continue
			}
			src := floats(782 * 256)
			elems, size := d.BlockElems(), d.BlockBytes()
			want := make([]byte, len(src)/elems*size)
			encodeGeneric(d, want, src)
			got := make([]byte, len(want))
			if err := Encode(plain(d), got, src, nil, 1); err != nil {
				t.Fatal(err)
			}
			if i := kerneltest.FirstDifference(got, want); i >= 0 {
				b := i / size
				t.Fatalf("%v: block %v: % x, want % x", d, src[b*elems:][:elems], got[b*size:][:size], want[b*size:][:size])
			}
			for n := range max(200/elems, 9) {
				buf := bytes.Repeat([]byte{0xa5}, n*size+64)
				off := 16 + n%16
				in := kerneltest.Aligned(n*elems, n%16)
				copy(in, src)
				encode(d, 0, buf[off:off+n*size:off+n*size], in, nil)
				if !bytes.Equal(buf[off:off+n*size], want[:n*size]) {
					t.Fatalf("%v: %d blocks differ", d, n)
				}
				if bytes.Count(buf[:off], []byte{0xa5}) != off || bytes.Count(buf[off+n*size:], []byte{0xa5}) != 64-off {
					t.Fatalf("%v: %d blocks: wrote outside dst", d, n)
				}
			}
		}
	})
}

// floats are n float32s: patterns where rounding to 16 bits decides, every exponent, plain
// weights, then blocks that are all zero, tiny, or hold an infinity or a NaN.
func floats(n int) []float32 {
	rng := rand.New(rand.NewPCG(5, 5))
	f := make([]float32, 0, n)
	for e := range uint32(512) {
		for _, m := range []uint32{0, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0x18000, 0x7fefff, 0x7ff000, 0x7fffff} {
			f = append(f, math.Float32frombits(e<<23|m))
		}
		f = append(f, 0, 1)
	}
	for len(f)+32 <= n {
		block := make([]float32, 32)
		scale := math.Ldexp(1, rng.IntN(60)-40)
		for i := range block {
			block[i] = float32(rng.NormFloat64() * scale)
		}
		switch at := rng.IntN(32); rng.IntN(16) {
		case 0:
			clear(block)
		case 1:
			block[at] = float32(math.NaN())
		case 2:
			block[at] = float32(math.Inf(1 - 2*(at&1)))
		case 3:
			for i := range block {
				block[i] = math.Float32frombits(rng.Uint32())
			}
		case 4:
			for i := range block {
				block[i] = math.Float32frombits(rng.Uint32() & 0x807fffff)
			}
		case 5: // a tie at every step
			for i := range block {
				block[i] = float32(i-16) / 2
			}
		}
		f = append(f, block...)
	}
	return append(f, make([]float32, n-len(f))...)
}
