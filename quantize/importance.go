package quantize

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// The encoders of types with a search. Each takes the importance of its elements, or nil for none.
// They do what ggml's quantize_q2_K … quantize_iq4_xs do (ggml-quants.c).

// A searchedType is a block type whose encoder searches for scales.
type searchedType struct {
	size, elems int   // bytes and elements of a block
	atOnce      int   // blocks that one batch takes
	scales      []int // where a block has its binary16 scale and, in types with an offset, the scale of offsets
}

// searchedTypeOf returns the searchedType of type d. A batch takes atOnce of its blocks.
func searchedTypeOf(d layout.DType, atOnce int, scales ...int) *searchedType {
	return &searchedType{d.BlockBytes(), d.BlockElems(), atOnce, scales}
}

var (
	blocksQ4_0   = searchedTypeOf(layout.Q4_0, lanes, 0)
	blocksQ4_1   = searchedTypeOf(layout.Q4_1, lanes, 0, 2)
	blocksQ5_0   = searchedTypeOf(layout.Q5_0, lanes, 0)
	blocksQ5_1   = searchedTypeOf(layout.Q5_1, lanes, 0, 2)
	blocksQ2_K   = searchedTypeOf(layout.Q2_K, 1, 80, 82)
	blocksQ3_K   = searchedTypeOf(layout.Q3_K, 1, 108)
	blocksQ4_K   = searchedTypeOf(layout.Q4_K, 2, 0, 2)
	blocksQ5_K   = searchedTypeOf(layout.Q5_K, 2, 0, 2)
	blocksQ6_K   = searchedTypeOf(layout.Q6_K, 1, 208)
	blocksIQ4_NL = searchedTypeOf(layout.IQ4_NL, lanes, 0)
	blocksIQ4_XS = searchedTypeOf(layout.IQ4_XS, 2, 0)
)

// encode encodes src to dst by the function encode, s.atOnce blocks at a time. A block whose importance gives it no usable scale is
// encoded again with equal weights. It returns how many blocks became usable only that way.
func (s *searchedType) encode(dst []byte, src, importance []float32, encode func(f *batch, dst []byte, x, importance []float32)) (even int) {
	f := batches.Get().(*batch)
	defer batches.Put(f)
	for n := min(len(src)/s.elems, len(dst)/s.size); n > 0; n -= s.atOnce {
		k := min(n, s.atOnce)
		encode(f, dst[:k*s.size], src[:k*s.elems], importance)
		if importance != nil {
			even += s.weighEvenly(f, dst[:k*s.size], src[:k*s.elems], encode)
			importance = importance[k*s.elems:]
		}
		dst, src = dst[k*s.size:], src[k*s.elems:]
	}
	return even
}

// Weights within these bounds have products and sums that float32 holds. Real ones do.
const (
	minWeight = 0x1p-100
	maxWeight = 0x1p96
)

// evenly is the importance used for a block that its own importance leaves without a scale.
var evenly = slices.Repeat([]float32{1}, 256)

// weighEvenly encodes blocks of x again with equal importance if their own gives no usable scale, or if their greatest
// weight is out of bounds. dst has the blocks as their own importance made them. It returns how many blocks have a
// usable scale only this way. ggml writes NaN or zeros for them.
func (s *searchedType) weighEvenly(f *batch, dst []byte, x []float32, encode func(f *batch, dst []byte, x, importance []float32)) (even int) {
	var greatest [lanes]float32 // weights of blocks; NaN where one is
	for i := range len(x) / s.elems {
		for _, w := range f.weights[i*s.elems:][:s.elems] {
			greatest[i] = max(greatest[i], w)
		}
	}
	var again [210]byte
	for i := 0; len(x) > 0; i++ {
		was := s.stateOf(dst)
		usable := greatest[i] >= minWeight && greatest[i] <= maxWeight && was == scaled
		if !usable && slices.ContainsFunc(x[:s.elems], func(v float32) bool { return v != 0 }) {
			encode(f, again[:s.size], x[:s.elems], evenly[:s.elems])
			is := s.stateOf(again[:])
			if is > was || is == scaled {
				copy(dst[:s.size], again[:])
			}
			if is == scaled {
				even++
			}
		}
		dst, x = dst[s.size:], x[s.elems:]
	}
	return even
}

// The states of a block's scales: all are zero, one is not finite, or all are finite and some not zero.
const (
	unscaled = iota
	notFinite
	scaled
)

// stateOf returns the state of the scales in block b: unscaled, notFinite or scaled.
func (s *searchedType) stateOf(b []byte) int {
	const magnitude, infinity = 0x7fff, 0x7c00
	is := unscaled
	for _, at := range s.scales {
		h := binary.LittleEndian.Uint16(b[at:]) & magnitude
		if h >= infinity {
			return notFinite
		}
		if h != 0 {
			is = scaled
		}
	}
	return is
}

// encoderByImportance returns a function that encodes a row of Q4_0, Q4_1, Q5_0 or Q5_1 by the importance of its elements. It tries
// the scales of the search s. An element's weight also depends on the row's variance. The function returns how many blocks had
// to be weighed evenly.
func encoderByImportance(b *searchedType, s *search) func(dst []byte, row, importance []float32) (even int) {
	affine := len(b.scales) == 2 // blocks have an offset too
	return func(dst []byte, row, importance []float32) int {
		variance := sumOfSquares(row) / float32(len(row))
		return b.encode(dst, row, importance, func(f *batch, dst []byte, x, importance []float32) {
			weigh(f.weights[:len(x)], importance, x, variance)
			f.fitEach(x, 32, s)
			for at := 0; at < len(x); at += 32 {
				var codes [32]uint8
				f.codesOf(codes[:], x[at:][:32], at, s)
				head := 2
				if affine {
					head = 4
					putHalf((*[2]byte)(dst), f.scales[at/32])
					putHalf((*[2]byte)(dst[2:]), -f.seconds[at/32])
				} else {
					putScale((*[2]byte)(dst), f.scales[at/32])
				}
				putHalves32(dst[head:b.size], &codes)
				dst = dst[b.size:]
			}
		})
	}
}

// putHalves32 packs the low four bits of 32 codes into the last 16 bytes of b: each byte has a code of the first half and one of the
// second. If b has 20 bytes, the first four get the fifth bits of all codes.
func putHalves32(b []byte, codes *[32]uint8) {
	low, fifth := b[len(b)-16:], uint32(0)
	for i := range 16 {
		low[i] = codes[i]&15 | codes[i+16]<<4
		fifth |= uint32(codes[i]>>4&1)<<i | uint32(codes[i+16]>>4&1)<<(i+16)
	}
	if len(b) == 20 {
		binary.LittleEndian.PutUint32(b, fifth)
	}
}

// putScale stores the scale of a fit as a binary16, as putHalf does. A NaN, which comes of sums that overflow, is stored with the
// sign that x86-64 gives it.
func putScale(b *[2]byte, scale float32) {
	if scale != scale {
		scale = math.Float32frombits(0xffc00000)
	}
	putHalf(b, scale)
}
