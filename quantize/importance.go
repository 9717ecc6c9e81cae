package quantize

import (
	"encoding/binary"
	"math"
	"slices"
)

// The encoders of types with a search. Each takes the importance of its elements, or nil for none.
// They do what ggml's quantize_q2_K … quantize_iq4_xs do (ggml-quants.c).

// A searched is a block type whose encoder searches for scales.
type searched struct {
	size, elems int   // bytes and elements of a block
	atOnce      int   // blocks that one batch takes
	scales      []int // offsets of a block's binary16 scales
}

var (
	blocksQ4_0   = &searched{18, 32, lanes, []int{0}}
	blocksQ4_1   = &searched{20, 32, lanes, []int{0, 2}}
	blocksQ5_0   = &searched{22, 32, lanes, []int{0}}
	blocksQ5_1   = &searched{24, 32, lanes, []int{0, 2}}
	blocksQ2_K   = &searched{84, 256, 1, []int{80, 82}}
	blocksQ3_K   = &searched{110, 256, 1, []int{108}}
	blocksQ4_K   = &searched{144, 256, 2, []int{0, 2}}
	blocksQ5_K   = &searched{176, 256, 2, []int{0, 2}}
	blocksQ6_K   = &searched{210, 256, 1, []int{208}}
	blocksIQ4_NL = &searched{18, 32, lanes, []int{0}}
	blocksIQ4_XS = &searched{136, 256, 2, []int{0}}
)

// encode calls encode for all blocks, s.atOnce at a time. It encodes a block with equal weights if importance leaves it
// no usable scale, and returns how many blocks that is.
func (s *searched) encode(dst []byte, src, importance []float32, encode func(f *batch, dst []byte, x, importance []float32)) (even int) {
	f := batches.Get().(*batch)
	defer batches.Put(f)
	for n := min(len(src)/s.elems, len(dst)/s.size); n > 0; n -= s.atOnce {
		k := min(n, s.atOnce)
		encode(f, dst[:k*s.size], src[:k*s.elems], importance)
		if importance != nil {
			even += s.weighEvenly(f, dst[:k*s.size], src[:k*s.elems], encode)
		}
		dst, src, importance = dst[k*s.size:], src[k*s.elems:], advance(importance, k*s.elems)
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
func (s *searched) weighEvenly(f *batch, dst []byte, x []float32, encode func(f *batch, dst []byte, x, importance []float32)) (even int) {
	var greatest [lanes]float32 // weights of blocks; NaN where one is
	for i := range len(x) / s.elems {
		for _, w := range f.weights[i*s.elems:][:s.elems] {
			greatest[i] = max(greatest[i], w)
		}
	}
	var again [210]byte
	for i := 0; len(x) > 0; i++ {
		was := s.scalesOf(dst)
		usable := greatest[i] >= minWeight && greatest[i] <= maxWeight && was == scaled
		if !usable && slices.ContainsFunc(x[:s.elems], func(v float32) bool { return v != 0 }) {
			encode(f, again[:s.size], x[:s.elems], evenly[:s.elems])
			is := s.scalesOf(again[:])
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

// scalesOf returns the state of the scales of block b: unscaled, notFinite or scaled.
func (s *searched) scalesOf(b []byte) int {
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

// advance returns importance without its first n numbers; nil stays nil.
func advance(importance []float32, n int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[n:]
}

// weighted returns the encoder, by importance, of rows of blocks b: of Q4_1 or Q5_1 if affine, else of Q4_0 or Q5_0.
// The weights depend on the row's variance.
func weighted(b *searched, s *search, affine bool) func(dst []byte, row, importance []float32) int {
	return func(dst []byte, row, importance []float32) int {
		variance := sumOfSquares(row) / float32(len(row))
		return b.encode(dst, row, importance, func(f *batch, dst []byte, x, importance []float32) {
			weigh(f.weights[:len(x)], importance, x, variance)
			if affine {
				f.affine(x, 32, s)
			} else {
				f.symmetric(x, 32, s)
			}
			for at := 0; at < len(x); at += 32 {
				var codes [32]uint8
				if affine {
					putHalf((*[2]byte)(dst), f.scales[at/32])
					putHalf((*[2]byte)(dst[2:]), -f.seconds[at/32])
					f.affineCodes(codes[:], x[at:][:32], at, s)
					putHalves32(dst[4:b.size], &codes)
				} else {
					putFitted((*[2]byte)(dst), f.scales[at/32])
					f.symmetricCodes(codes[:], x[at:][:32], at, s)
					putHalves32(dst[2:b.size], &codes)
				}
				dst = dst[b.size:]
			}
		})
	}
}

// putHalves32 packs the low four bits of 32 codes into the last 16 bytes of b. If b has 20 bytes, the first four get
// the fifth bits.
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

// putFitted stores the scale of a fit as putHalf does. The sums of a fit may overflow and their quotient be NaN: that
// is stored with the sign that x86-64 gives it.
func putFitted(b *[2]byte, scale float32) {
	if scale != scale {
		scale = math.Float32frombits(0xffc00000)
	}
	putHalf(b, scale)
}
