package quantize

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A searchedType says how blocks are encoded whose scales are searched for, as ggml's quantize_q2_K … quantize_iq4_xs
// do it (ggml-quants.c).
type searchedType struct {
	atOnce int   // blocks that one batch takes
	scales []int // where a block has its binary16 scale and, in types with an offset, the scale of offsets
	// encode encodes up to atOnce blocks x to dst. importance has a number for each element, or is nil.
	encode func(b *batch, dst []byte, x, importance []float32)
	byRow  bool // encode wants an importance, and the variance of the row
}

// searched are the types with a search. Q4_0, Q4_1, Q5_0 and Q5_1 have one only by importance.
var searched = [numTypes]searchedType{
	layout.Q4_0:   {lanes, []int{0}, encoderByImportance(layout.Q4_0, toEight), true},
	layout.Q4_1:   {lanes, []int{0, 2}, encoderByImportance(layout.Q4_1, weighed4), true},
	layout.Q5_0:   {lanes, []int{0}, encoderByImportance(layout.Q5_0, toSixteen), true},
	layout.Q5_1:   {lanes, []int{0, 2}, encoderByImportance(layout.Q5_1, weighed5), true},
	layout.Q2_K:   {1, []int{80, 82}, encodeQ2_K, false},
	layout.Q3_K:   {1, []int{108}, encodeQ3_K, false},
	layout.Q4_K:   {2, []int{0, 2}, encodeQ4_K, false},
	layout.Q5_K:   {2, []int{0, 2}, encodeQ5_K, false},
	layout.Q6_K:   {1, []int{208}, encodeQ6_K, false},
	layout.IQ4_NL: {lanes, []int{0}, encodeIQ4_NL, false},
	layout.IQ4_XS: {2, []int{0}, encodeIQ4_XS, false},
}

// encodeSearched encodes src, whole blocks of the type d, to dst. importance is the importance of the elements of one row, and src then that
// row, or it is nil. A block whose importance gives it no usable scale is encoded again with equal weights. encodeSearched returns
// how many blocks became usable only that way.
func encodeSearched(d layout.DType, dst []byte, src, importance []float32) (even int) {
	s, elems, size := &searched[d], d.BlockElems(), d.BlockBytes()
	b := batches.Get().(*batch)
	defer batches.Put(b)
	if s.byRow {
		b.variance = sumOfSquares(src) / float32(len(src))
	}
	for n := min(len(src)/elems, len(dst)/size); n > 0; n -= s.atOnce {
		k := min(n, s.atOnce)
		s.encode(b, dst[:k*size], src[:k*elems], importance)
		if importance != nil {
			even += s.weighEvenly(b, dst[:k*size], src[:k*elems], k)
			importance = importance[k*elems:]
		}
		dst, src = dst[k*size:], src[k*elems:]
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
// weight is out of bounds. dst has the n blocks as their own importance made them. It returns how many of them have a
// usable scale only this way. ggml writes NaN or zeros for them.
func (s *searchedType) weighEvenly(b *batch, dst []byte, x []float32, n int) (even int) {
	size, elems := len(dst)/n, len(x)/n
	var greatest [lanes]float32 // weights of blocks; NaN where one is
	for i := range n {
		for _, w := range b.weights[i*elems:][:elems] {
			greatest[i] = max(greatest[i], w)
		}
	}
	var again [210]byte
	for i := range n {
		dst, x := dst[i*size:][:size], x[i*elems:][:elems]
		was := s.stateOf(dst)
		usable := greatest[i] >= minWeight && greatest[i] <= maxWeight && was == scaled
		if !usable && slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) {
			s.encode(b, again[:size], x, evenly[:elems])
			is := s.stateOf(again[:])
			if is > was || is == scaled {
				copy(dst, again[:])
			}
			if is == scaled {
				even++
			}
		}
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

// encoderByImportance returns the encoder of d, which is Q4_0, Q4_1, Q5_0 or Q5_1. It tries the scales of the search s. An
// element's weight also depends on the row's variance.
func encoderByImportance(d layout.DType, s *search) func(b *batch, dst []byte, x, importance []float32) {
	return func(b *batch, dst []byte, x, importance []float32) {
		weigh(b.weights[:len(x)], importance, x, b.variance)
		b.fitEach(x, 32, s)
		for at := 0; at < len(x); at += 32 {
			var codes [32]uint8
			b.codesOf(codes[:], x[at:][:32], at, s)
			head := 2
			if s.low < 0 { // a symmetric fit
				putScale((*[2]byte)(dst), b.scales[at/32])
			} else {
				head = 4
				putHalf((*[2]byte)(dst), b.scales[at/32])
				putHalf((*[2]byte)(dst[2:]), -b.seconds[at/32])
			}
			putHalves32(dst[head:d.BlockBytes()], &codes)
			dst = dst[d.BlockBytes():]
		}
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
