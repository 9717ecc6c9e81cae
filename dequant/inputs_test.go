package dequant

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

// types are all that the package expands block by block.
var types = func() (ds []layout.DType) {
	for d := range layout.DType(numTypes) {
		if hasKernel(d) {
			ds = append(ds, d)
		}
	}
	return ds
}()

// scaleBytes says how many bytes at the start of a block are scales of one byte.
var scaleBytes = map[layout.DType]int{layout.MXFP4: 1, layout.NVFP4: 4}

// edgeHalves are zero, subnormal, small, one, huge, infinite and NaN, both signs.
var edgeHalves = []uint16{
	0x0000, 0x0001, 0x03ff, 0x0400, 0x2e66, 0x3c00, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7fff,
	0x8000, 0x8001, 0x83ff, 0x8400, 0xae66, 0xbc00, 0xfbff, 0xfc00, 0xfdff, 0xfe00,
}

// inputs are blocks of type d: every value for types of one and two bytes, edges and random
// values for wider numbers, and for block types every byte value in every place under
// every edge scale, then random blocks.
func inputs(d layout.DType) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(d)))
	switch size := d.BlockBytes(); {
	case d.Quantized():
		return append(edgeBlocks(d), randomBytes(rng, 2000*size)...)
	case size == 1:
		var b []byte
		for v := range 256 {
			b = append(b, byte(v))
		}
		return b
	case size == 2:
		var b []byte
		for v := range 1 << 16 {
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		}
		return b
	case size == 4:
		var b []byte
		for e := range 512 { // every sign and exponent, for F32; every width, for integers
			for _, m := range []uint32{0, 1, 2, 3, 1<<22 - 1, 1 << 22, 1<<22 + 1, 1<<23 - 1} {
				b = binary.LittleEndian.AppendUint32(b, uint32(e)<<23|m)
			}
		}
		return append(b, randomBytes(rng, 40000)...)
	}
	return append(edgeWords(), randomBytes(rng, 80000)...)
}

// edgeWords are 64-bit patterns at which rounding to float32 decides, as integers of every
// width and as floats of every exponent.
func edgeWords() []byte {
	var b []byte
	add := func(v uint64) {
		for _, w := range []uint64{v - 1, v, v + 1, -v, ^v} {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	for shift := range 64 {
		for _, m := range []uint64{1, 3, 1<<24 - 1, 1<<24 + 1, 1<<25 - 1, 1<<25 + 1, 1<<25 + 3} {
			add(m << shift)
			add(m<<shift | 1)
		}
	}
	for e := range uint64(2048) {
		for _, m := range []uint64{0, 1, 1 << 28, 1<<28 - 1, 1<<28 + 1, 3 << 28, 1<<52 - 1} {
			add(e<<52 | m)
		}
	}
	add(math.Float64bits(math.MaxFloat32))
	add(math.Float64bits(math.SmallestNonzeroFloat32 / 2))
	return b
}

func edgeBlocks(d layout.DType) []byte {
	size := d.BlockBytes()
	var out []byte
	block := make([]byte, size)
	place := func(fill func(i int) byte, scales ...uint16) {
		for i := range block {
			block[i] = fill(i)
		}
		for i, at := range kerneltest.Halves[d] {
			kerneltest.PutScale(d, block[at:], scales[i%len(scales)])
		}
		out = append(out, block...)
	}
	for v := range 256 {
		same := func(int) byte { return byte(v) }
		for i, h := range edgeHalves {
			place(same, h, edgeHalves[(i+v)%len(edgeHalves)])
		}
		if n := scaleBytes[d]; n > 0 { // all codes under every scale
			place(func(i int) byte {
				if i < n {
					return byte(v)
				}
				return byte((i - n) * 17)
			})
		}
	}
	for i := range 8 * size { // one bit at a time
		one := func(k int) byte {
			if k == i/8 {
				return 1 << (i % 8)
			}
			return 0
		}
		place(one, 0x3c00, 0x3555)
		place(func(k int) byte { return ^one(k) }, 0xb555, 0x3c00)
	}
	if d == layout.Q8_K {
		for e := range uint32(512) { // every sign and exponent of its scale
			place(func(i int) byte { return byte(i * 37) })
			binary.LittleEndian.PutUint32(out[len(out)-size:], e<<23|e%3*0x200001)
		}
	}
	for _, h := range edgeHalves {
		for _, m := range edgeHalves {
			place(func(i int) byte { return byte(i*37 + int(m)) }, h, m)
		}
	}
	return out
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return b[:n]
}

// carriesNaN are the types whose NaNs are specified to the bit.
var carriesNaN = map[layout.DType]bool{
	layout.F32: true, layout.F16: true, layout.BF16: true, layout.F8_E4M3: true, layout.F8_E5M2: true,
}

// same compares by the package's rule: bits, but in types that compute, any NaN is a NaN.
func same(d layout.DType, x, y float32) bool {
	if math.Float32bits(x) == math.Float32bits(y) {
		return true
	}
	return !carriesNaN[d] && x != x && y != y
}

// differ finds the first element that is not the same, or -1.
func differ(d layout.DType, got, want []float32) int {
	if len(got) != len(want) {
		return min(len(got), len(want))
	}
	if bytes.Equal(floatBytes(got), floatBytes(want)) {
		return -1
	}
	for i := range got {
		if !same(d, got[i], want[i]) {
			return i
		}
	}
	return -1
}

func floatBytes(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
