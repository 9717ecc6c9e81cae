package dequant

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tensormap/tensormap/dequant/internal/block"
)

// The encoders of types with a search. Each takes the importance of its elements, or nil for none.
// They do what ggml's quantize_q2_K … quantize_iq4_xs do (ggml-quants.c).

// A searched is a type of blocks with a search.
type searched struct {
	size, elems int   // bytes and elements of a block
	most        int   // blocks at a time
	scales      []int // places of a block's float16 scales
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

// encode calls encode for all blocks. It weighs those evenly that importance leaves nothing of, and returns their
// number.
func (s *searched) encode(dst []byte, src, importance []float32, encode func(f *batch, dst []byte, x, importance []float32)) (even int) {
	f := batches.Get().(*batch)
	defer batches.Put(f)
	for n := min(len(src)/s.elems, len(dst)/s.size); n > 0; n -= s.most {
		k := min(n, s.most)
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
	leastWeight = 0x1p-100
	mostWeight  = 0x1p96
)

// evenly is the importance of a block that has none to be used.
var evenly = slices.Repeat([]float32{1}, 256)

// weighEvenly encodes those of the blocks of x anew that their importance has left without a scale, or whose greatest weight is out
// of bounds. It returns the number of those that have one then. ggml writes NaN or zeros for them.
func (s *searched) weighEvenly(f *batch, dst []byte, x []float32, encode func(f *batch, dst []byte, x, importance []float32)) (even int) {
	var greatest [lanes]float32 // weights of blocks; NaN where one is
	for i := range len(x) / s.elems {
		for _, w := range f.weights[i*s.elems:][:s.elems] {
			greatest[i] = max(greatest[i], w)
		}
	}
	var room [210]byte
	for i := 0; len(x) > 0; i++ {
		was := s.scaled(dst)
		usable := greatest[i] >= leastWeight && greatest[i] <= mostWeight && was == scaled
		if !usable && slices.ContainsFunc(x[:s.elems], func(v float32) bool { return v != 0 }) {
			encode(f, room[:s.size], x[:s.elems], evenly[:s.elems])
			is := s.scaled(room[:])
			if is > was || is == scaled {
				copy(dst[:s.size], room[:])
			}
			if is == scaled {
				even++
			}
		}
		dst, x = dst[s.size:], x[s.elems:]
	}
	return even
}

// The scales of a block are zeros, or one of them is not finite, or neither.
const (
	unscaled = iota
	notFinite
	scaled
)

// scaled tells which of these the scales of a block are.
func (s *searched) scaled(b []byte) int {
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

func encodeQ2_K(dst []byte, src, importance []float32) (even int) {
	return blocksQ2_K.encode(dst, src, importance, func(f *batch, dst []byte, x, importance []float32) {
		var codes [256]uint8
		var sums [16]float32
		s := plain2_K
		if importance == nil {
			for i, v := range x {
				f.weights[i] = abs(v)
			}
		} else {
			s = weighed2
			weigh(f.weights[:256], importance, x, sumOfSquares(x)/256)
			for j := range sums {
				sums[j] = sumOf(f.weights[16*j:][:16])
			}
		}
		f.affine(x, 16, s)
		b := (*[84]byte)(dst)
		var d, dmin uint16
		var ls, lm [16]uint8
		if importance == nil {
			d, dmin = fractions(ls[:], f.scales[:], 15), fractions(lm[:], f.seconds[:], 15)
		} else {
			d, dmin = block.Half(fitPositive(ls[:], f.scales[:], sums[:], 15)), block.Half(fitPositive(lm[:], f.seconds[:], sums[:], 15))
		}
		for j := range ls {
			b[j] = ls[j] | lm[j]<<4
		}
		binary.LittleEndian.PutUint16(b[80:], d)
		binary.LittleEndian.PutUint16(b[82:], dmin)
		var scales, offsets [lanes]float32
		for j := range scales {
			scales[j], offsets[j] = times(block.Float(d), float32(b[j]&15)), times(block.Float(dmin), float32(b[j]>>4))
		}
		f.roundAffine(&codes, x, 0, 16, &scales, &offsets, s)
		putTwoBits(b[16:80], &codes)
	})
}

// fractions sets codes to fractions of the greatest number, which gets the code most, and returns the scale.
func fractions(codes []uint8, x []float32, most float32) (scale uint16) {
	greatest, inverse := float32(0), float32(0)
	for _, v := range x {
		if v > greatest {
			greatest = v
		}
	}
	if greatest > 0 {
		inverse = most / greatest
	}
	for j, v := range x {
		codes[j] = uint8(nearest(times(inverse, v)))
	}
	return block.Half(greatest / most)
}

// roundAffine sets codes to (x + offset) / scale, for 256 elements of x from at on.
func (b *batch) roundAffine(codes *[256]uint8, x []float32, at, elems int, scales, offsets *[lanes]float32, s *search) {
	round(codes, x[at:], elems, scales, offsets, 0, s.most, func(codes []uint8, i int) {
		b.affineCodes(codes, x[at+i:][:elems], at+i, s)
	})
}

// putTwoBits packs the low two bits of codes, four runs of 32 in 32 bytes.
func putTwoBits(b []byte, codes *[256]uint8) {
	for i := range 64 {
		c := codes[i&32<<2+i&31:]
		b[i] = c[0] | c[32]<<2 | c[64]<<4 | c[96]<<6
	}
}

// putNibbles packs the low four bits of codes, two runs of 32 in 32 bytes.
func putNibbles(b []byte, codes *[256]uint8) {
	for i := range 128 {
		c := codes[i&^31<<1+i&31:]
		b[i] = c[0]&15 | c[32]<<4
	}
}

func advance(importance []float32, n int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[n:]
}

func encodeQ3_K(dst []byte, src, importance []float32) (even int) {
	return blocksQ3_K.encode(dst, src, importance, func(f *batch, dst []byte, x, importance []float32) {
		var codes [256]uint8
		scales := &f.scales
		var levels [16]uint8
		var d uint16
		if importance == nil {
			f.byTurns(x, toFour)
			if extreme, _ := firstExtreme(scales[:]); extreme != 0 {
				inverse := -32 / extreme
				for j, s := range scales {
					levels[j] = uint8(max(-32, min(31, int8(nearest(times(inverse, s))))) + 32)
				}
				d = block.Half(1 / inverse)
			} // or else levels stand for -32, under a scale of 0
		} else {
			var sums [16]float32
			weigh(f.weights[:256], importance, x, 2*sumOfSquares(x)/256)
			for j := range sums {
				sums[j] = sumOf(f.weights[16*j:][:16])
			}
			f.symmetric(x, 16, toFour)
			scale, _ := fitSymmetric(levels[:], scales[:], sums[:], to32)
			d = block.Half(scale)
		}
		b := (*[110]byte)(dst)
		clear(b[:])
		for j, l := range levels {
			b[96+j&7] |= l & 15 << (j >> 3 * 4)
			b[104+j&3] |= l >> 4 << (j >> 2 * 2)
		}
		binary.LittleEndian.PutUint16(b[108:], d)
		var fine [lanes]float32
		for j, l := range levels {
			fine[j] = times(block.Float(d), float32(int8(l)-32))
		}
		round(&codes, x, 16, &fine, new([lanes]float32), -4, 3, func(codes []uint8, at int) {
			if importance == nil {
				fitByTurns(codes, x[at:][:16], nil, toFour)
			} else {
				f.symmetricCodes(codes, x[at:][:16], at, toFour)
			}
		})
		for i, c := range codes { // from 0 to 7
			b[i&31] |= c >> 2 << (i >> 5)
			codes[i] = c & 3
		}
		putTwoBits(b[32:96], &codes)
	})
}

func encodeQ4_K(dst []byte, src, importance []float32) (even int) {
	return encodeK4(blocksQ4_K, plain4_K, weighed4, dst, src, importance, func(b []byte, codes *[256]uint8) { putNibbles(b[16:144], codes) })
}

func encodeQ5_K(dst []byte, src, importance []float32) (even int) {
	return encodeK4(blocksQ5_K, plain5_K, weighed5, dst, src, importance, func(b []byte, codes *[256]uint8) {
		clear(b[16:48])
		for i, c := range codes {
			b[16+i&31] |= c >> 4 << (i >> 5)
		}
		putNibbles(b[48:176], codes)
	})
}

// encodeK4 encodes blocks of Q4_K and Q5_K, two at a time.
func encodeK4(b *searched, plain, weighed *search, dst []byte, src, importance []float32, put func(b []byte, codes *[256]uint8)) (even int) {
	s := plain
	if importance != nil {
		s = weighed
	}
	return b.encode(dst, src, importance, func(f *batch, dst []byte, x, importance []float32) {
		for at := 0; at < len(x); at += 256 {
			x, w := x[at:][:256], f.weights[at:][:256]
			if importance != nil {
				weigh(w, importance[at:], x, 2*sumOfSquares(x)/256)
				continue
			}
			for j := 0; j < 256; j += 32 {
				mean := root(sumOfSquares(x[j:][:32]) / 32)
				for i, v := range x[j:][:32] {
					w[j+i] = mean + abs(v)
				}
			}
		}
		f.affine(x, 32, s)
		for at := 0; at < len(x); at += 256 {
			var codes [256]uint8
			f.scalesK4(&codes, (*[16]byte)(dst), x, at, s, importance != nil)
			put(dst[:b.size], &codes)
			dst = dst[b.size:]
		}
	})
}

// scalesK4 writes the scales at the head of a Q4_K or Q5_K block, and finds its codes. Its elements begin at x[at].
func (f *batch) scalesK4(codes *[256]uint8, head *[16]byte, x []float32, at int, search *search, weighed bool) {
	scales, mins := (*[8]float32)(f.scales[at/32:]), (*[8]float32)(f.seconds[at/32:])
	var ls, lm [8]uint8
	var d, dmin uint16
	if !weighed {
		d, dmin = fractions(ls[:], scales[:], 63), fractions(lm[:], mins[:], 63)
	} else {
		var sums [8]float32
		for j := range sums {
			sums[j] = sumOf(f.weights[at+32*j:][:32])
		}
		d, dmin = block.Half(fitPositive(ls[:], scales[:], sums[:], 63)), block.Half(fitPositive(lm[:], mins[:], sums[:], 63))
	}
	if !weighed || search.most == 31 { // by importance ggml caps the codes of negative scales in Q5_K alone
		for j := range ls {
			ls[j], lm[j] = min(63, ls[j]), min(63, lm[j])
		}
	}
	binary.LittleEndian.PutUint16(head[0:], d)
	binary.LittleEndian.PutUint16(head[2:], dmin)
	packed := (*[12]byte)(head[4:])
	for j := range 4 {
		packed[j] = ls[j] | ls[j+4]>>4<<6
		packed[j+4] = lm[j] | lm[j+4]>>4<<6
		packed[j+8] = ls[j+4]&15 | lm[j+4]<<4
	}
	s, m := block.K4Scales(packed)
	var fine, offsets [lanes]float32
	for j := range s {
		fine[j], offsets[j] = times(block.Float(d), float32(s[j])), times(block.Float(dmin), float32(m[j]))
	}
	f.roundAffine(codes, x, at, 32, &fine, &offsets, search)
}

func encodeQ6_K(dst []byte, src, importance []float32) (even int) {
	return blocksQ6_K.encode(dst, src, importance, func(f *batch, dst []byte, x, importance []float32) {
		if importance == nil {
			for i, v := range x {
				f.weights[i] = times(v, v)
			}
		} else {
			copy(f.weights[:256], importance)
		}
		f.symmetric(x, 16, to32)
		b := (*[210]byte)(dst)
		if extreme, magnitude := firstExtreme(f.scales[:]); magnitude < tiny {
			clear(b[:])
		} else {
			var codes [256]uint8
			inverse := -128 / extreme
			d := block.Half(1 / inverse)
			binary.LittleEndian.PutUint16(b[208:], d)
			var fine [lanes]float32
			for j, s := range f.scales {
				l := int8(min(127, nearest(times(inverse, s))))
				b[192+j] = byte(l)
				fine[j] = times(block.Float(d), float32(l))
			}
			round(&codes, x, 16, &fine, new([lanes]float32), -32, 31, func(codes []uint8, at int) {
				f.symmetricCodes(codes, x[at:][:16], at, to32)
			})
			putQ6_K(b, &codes)
		}
	})
}

func putQ6_K(b *[210]byte, codes *[256]uint8) {
	for half := range 2 {
		c, low, high := codes[128*half:], b[64*half:], b[128+32*half:]
		for i := range 32 {
			c0, c1, c2, c3 := c[i], c[i+32], c[i+64], c[i+96]
			low[i], low[i+32] = c0&15|c2<<4, c1&15|c3<<4
			high[i] = c0>>4 | c1>>4<<2 | c2>>4<<4 | c3>>4<<6
		}
	}
}

// fitIQ4 returns the scale of 32 numbers with the levels of IQ4_NL. It finds no codes.
func fitIQ4(_ []uint8, x, w []float32, s *search) (d, _ float32) {
	extreme, magnitude := firstExtreme(x)
	if magnitude < tiny {
		return 0, 0
	}
	sums := func(inverse float32) (qx, qq float32) {
		for i, v := range x {
			q := float32(block.IQ4[nearestIQ4(times(inverse, v))])
			wq := times(w[i], q)
			qx += times(wq, v)
			qq += times(wq, q)
		}
		return qx, qq
	}
	qx, qq := sums(1 / (-extreme / float32(block.IQ4[0])))
	d = qx / qq
	best := times(d, qx)
	for _, top := range s.tops {
		qx, qq := sums(top / extreme)
		if qq > 0 && times(qx, qx) > times(best, qq) {
			d = qx / qq
			best = times(d, qx)
		}
	}
	return d, 0
}

// nearestIQ4 returns the index of the level nearest to x, the upper one of two. A NaN gets the last.
func nearestIQ4(x float32) uint8 {
	if x <= float32(block.IQ4[0]) {
		return 0
	}
	if x >= float32(block.IQ4[15]) {
		return 15
	}
	low, high := 0, 15
	for high-low > 1 {
		if mid := (low + high) / 2; x < float32(block.IQ4[mid]) {
			high = mid
		} else {
			low = mid
		}
	}
	if x-float32(block.IQ4[high-1]) < float32(block.IQ4[high])-x {
		return uint8(high - 1)
	}
	return uint8(high)
}

// weighIQ4 makes the weights of blocks of elems elements.
func (b *batch) weighIQ4(x, importance []float32, elems int) {
	for at := 0; at < len(x); at += elems {
		x, w := x[at:][:elems], b.weights[at:][:elems]
		if importance != nil {
			weigh(w, importance[at:], x, times(sumOfSquares(x), 2/float32(elems)))
			continue
		}
		for i, v := range x {
			w[i] = times(v, v)
		}
	}
}

// putIQ4 writes the codes of 32 numbers into 16 bytes.
func putIQ4(b []byte, x []float32, inverse float32) {
	for i := range 16 {
		b[i] = nearestIQ4(times(inverse, x[i])) | nearestIQ4(times(inverse, x[i+16]))<<4
	}
}

// putFitted stores a scale, rounded. The sums of a fit may overflow, and their quotient be NaN. Its sign
// is then x86-64's on every machine.
func putFitted(b *[2]byte, scale float32) {
	if scale != scale {
		scale = math.Float32frombits(0xffc00000)
	}
	putHalf(b, scale)
}

func encodeIQ4_NL(dst []byte, src, importance []float32) (even int) {
	return blocksIQ4_NL.encode(dst, src, importance, func(f *batch, dst []byte, x, importance []float32) {
		f.weighIQ4(x, importance, 32)
		f.iq4(x)
		for at := 0; at < len(x); at += 32 {
			d := f.scales[at/32]
			putFitted((*[2]byte)(dst), d)
			putIQ4(dst[2:18], x[at:], reciprocal(d))
			dst = dst[18:]
		}
	})
}

func encodeIQ4_XS(dst []byte, src, importance []float32) (even int) {
	return blocksIQ4_XS.encode(dst, src, importance, func(f *batch, dst []byte, x, importance []float32) {
		f.weighIQ4(x, importance, 256)
		f.iq4(x)
		for at := 0; at < len(x); at += 256 {
			putIQ4_XS((*[136]byte)(dst), x[at:], (*[8]float32)(f.scales[at/32:]))
			dst = dst[136:]
		}
	})
}

// putIQ4_XS writes a block with these scales.
func putIQ4_XS(b *[136]byte, x []float32, scales *[8]float32) {
	extreme, _ := firstExtreme(scales[:])
	d := -extreme / 32
	inverse := reciprocal(d)
	clear(b[:8])
	binary.LittleEndian.PutUint16(b[0:], block.Half(d))
	high := uint16(0)
	for j, s := range scales {
		l := max(-32, min(31, nearest(times(inverse, s))))
		putIQ4(b[8+16*j:][:16], x[32*j:][:32], reciprocal(times(d, float32(l))))
		l += 32
		b[4+j/2] |= byte(l&15) << (j & 1 * 4)
		high |= uint16(l>>4) << (2 * j)
	}
	binary.LittleEndian.PutUint16(b[2:], high)
}

func encodeMXFP4(dst []byte, src []float32) {
	for len(dst) >= 17 && len(src) >= 32 {
		x := (*[32]float32)(src)
		var e uint8
		most, magnitude := uint32(0), float32(0)
		for _, v := range x {
			most = max(most, math.Float32bits(v)&^signBit)
		}
		if _, magnitude = firstExtreme(x[:]); magnitude > 0 {
			// As C's floorf(log2f(magnitude)): just below a power of two the logarithm rounds up to that power's.
			log2 := float32(math.Floor(float64(float32(math.Log2(float64(magnitude))))))
			e = uint8(truncate(log2 - 2 + 127))
		}
		dst[0] = e
		if scale := block.E8M0Half(e); most < infinity && magnitude > scale && scale < 0x1p125 { // and all levels are finite
			var limits [7]uint32
			for i := range limits {
				limits[i] = math.Float32bits(scale * fp4Limits[i])
			}
			for i := range 16 {
				dst[1+i] = codeFP4(&limits, x[i]) | codeFP4(&limits, x[i+16])<<4
			}
		} else {
			var levels [16]float32
			for i := range levels {
				levels[i] = float32(block.FP4[i]) * scale
			}
			for i := range 16 {
				dst[1+i] = nearestFP4(&levels, x[i]) | nearestFP4(&levels, x[i+16])<<4
			}
		}
		dst, src = dst[17:], src[32:]
	}
}

// fp4Limits are half-way between the magnitudes of codes. Their products with a scale are exact.
var fp4Limits = [7]float32{0.5, 1.5, 2.5, 3.5, 5, 7, 10}

// codeFP4 returns the code of the level nearest to x, the smaller one of two, and never minus zero. limits are the bits
// of magnitudes, which order as these do.
func codeFP4(limits *[7]uint32, x float32) uint8 {
	bits := math.Float32bits(x)
	code := uint32(0)
	for _, l := range limits {
		code += (l - bits&^signBit) >> 31
	}
	return uint8(code | bits>>31<<3&((-code>>31)<<3))
}

// nearestFP4 returns the index of the level nearest to x, the first of two.
func nearestFP4(levels *[16]float32, x float32) (index uint8) {
	least := abs(levels[0] - x)
	for i, l := range levels {
		if e := abs(l - x); e < least {
			index, least = uint8(i), e
		}
	}
	return index
}

// weighted returns the encoder of a row of Q4_0 or Q5_0, or of Q4_1 or Q5_1 if affine. Weights depend on the row's variance.
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

// putHalves32 packs the low four bits of 32 codes into the last 16 bytes, and the fifth before them if there is room.
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
