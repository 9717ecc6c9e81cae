package quantize

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/internal/block"
)

// The encoders of Q2_K to Q6_K. They do what ggml's quantize_q2_K … quantize_q6_K do (ggml-quants.c).

// encodeQ2_K writes blocks of 256 values as Q2_K: codes of 2 bits, with a scale and an offset for every 16.
func encodeQ2_K(f *batch, dst []byte, x, importance []float32) {
	var codes [256]uint8
	s := plain2_K
	if importance == nil {
		for i, v := range x {
			f.weights[i] = abs(v)
		}
	} else {
		s = weighed2
		weigh(f.weights[:256], importance, x, sumOfSquares(x)/256)
	}
	f.fitEach(x, 16, s)
	b := (*[84]byte)(dst)
	var ls, lm [16]uint8
	d, dmin := f.quantizeScales(ls[:], lm[:], 0, 16, 15, importance != nil)
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
}

// quantizeScales sets ls and lm to the scales and offsets of a block, as integers up to maxCode, and returns the scale of either. The
// block begins at element at of the batch, and fitEach has fitted every elems elements. weighed says that the weights come from an
// importance: they then weigh the errors of scales too.
func (b *batch) quantizeScales(ls, lm []uint8, at, elems int, maxCode int32, weighed bool) (d, dmin uint16) {
	scales, mins := b.scales[at/elems:][:len(ls)], b.seconds[at/elems:][:len(lm)]
	if !weighed {
		return quantizeScales(ls, scales, float32(maxCode)), quantizeScales(lm, mins, float32(maxCode))
	}
	sums := make([]float32, 0, lanes)
	for j := range ls {
		sums = append(sums, sumOf(b.weights[at+elems*j:][:elems]))
	}
	return block.Half(fitPositive(ls, scales, sums, maxCode)), block.Half(fitPositive(lm, mins, sums, maxCode))
}

// quantizeScales sets codes to x, scales or offsets of parts of a block, as integers: x divided by one scale for all, rounded. The
// greatest x gets the code maxCode. It returns that scale as the bits of a binary16.
func quantizeScales(codes []uint8, x []float32, maxCode float32) (scale uint16) {
	greatest, inverse := float32(0), float32(0)
	for _, v := range x {
		if v > greatest {
			greatest = v
		}
	}
	if greatest > 0 {
		inverse = maxCode / greatest
	}
	for j, v := range x {
		codes[j] = uint8(nearest(times(inverse, v)))
	}
	return block.Half(greatest / maxCode)
}

// roundAffine sets codes to (x + offset)/scale, rounded, for the 256 elements of x from at on. Every elems elements have the next
// scale and offset. Where a scale is 0 the codes stay as the fit of affine has made them.
func (b *batch) roundAffine(codes *[256]uint8, x []float32, at, elems int, scales, offsets *[lanes]float32, s *search) {
	round(codes, x[at:], elems, scales, offsets, 0, s.maxCode, func(codes []uint8, i int) {
		b.codesOf(codes, x[at+i:][:elems], at+i, s)
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

// encodeQ3_K writes blocks of 256 values as Q3_K: codes of 3 bits, with a scale for every 16.
func encodeQ3_K(f *batch, dst []byte, x, importance []float32) {
	var codes [256]uint8
	scales := &f.scales
	var levels [16]uint8
	var d uint16
	if importance == nil {
		f.fitEach(x, 16, byTurns4)
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
		f.fitEach(x, 16, toFour)
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
			fitByTurns(codes, x[at:][:16], nil, byTurns4)
		} else {
			f.codesOf(codes, x[at:][:16], at, toFour)
		}
	})
	for i, c := range codes { // from 0 to 7
		b[i&31] |= c >> 2 << (i >> 5)
		codes[i] = c & 3
	}
	putTwoBits(b[32:96], &codes)
}

// encodeQ4_K writes blocks of 256 values as Q4_K: nibbles, with a scale and an offset for every 32.
func encodeQ4_K(f *batch, dst []byte, x, importance []float32) {
	f.encodeK4(dst, x, importance, plain4_K, weighed4, func(b []byte, codes *[256]uint8) { putNibbles(b[16:144], codes) })
}

// encodeQ5_K writes blocks of 256 values as Q5_K: codes of 5 bits, with a scale and an offset for every 32.
func encodeQ5_K(f *batch, dst []byte, x, importance []float32) {
	f.encodeK4(dst, x, importance, plain5_K, weighed5, func(b []byte, codes *[256]uint8) {
		clear(b[16:48])
		for i, c := range codes {
			b[16+i&31] |= c >> 4 << (i >> 5)
		}
		putNibbles(b[48:176], codes)
	})
}

// encodeK4 encodes x as blocks of Q4_K or Q5_K: by the search plain, or by weighed if importance is not nil. It calls put to
// write the codes of each block.
func (f *batch) encodeK4(dst []byte, x, importance []float32, plain, weighed *search, put func(b []byte, codes *[256]uint8)) {
	s, size := plain, len(dst)/(len(x)/256)
	if importance != nil {
		s = weighed
	}
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
	f.fitEach(x, 32, s)
	for at := 0; at < len(x); at += 256 {
		var codes [256]uint8
		f.putK4Scales(&codes, (*[16]byte)(dst), x, at, s, importance != nil)
		put(dst[:size], &codes)
		dst = dst[size:]
	}
}

// putK4Scales writes the scales and offsets of a Q4_K or Q5_K block to head, and sets codes to the codes of its 256 elements. They begin at
// x[at]. weighed says that the weights of the fits come from an importance.
func (f *batch) putK4Scales(codes *[256]uint8, head *[16]byte, x []float32, at int, search *search, weighed bool) {
	var ls, lm [8]uint8
	d, dmin := f.quantizeScales(ls[:], lm[:], at, 32, 63, weighed)
	if !weighed || search.maxCode == 31 { // by importance ggml caps the codes of negative scales in Q5_K alone
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

// encodeQ6_K writes blocks of 256 values as Q6_K: codes of 6 bits, with a scale for every 16.
func encodeQ6_K(f *batch, dst []byte, x, importance []float32) {
	if importance == nil {
		for i, v := range x {
			f.weights[i] = times(v, v)
		}
	} else {
		copy(f.weights[:256], importance)
	}
	f.fitEach(x, 16, to32)
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
			f.codesOf(codes, x[at:][:16], at, to32)
		})
		putQ6_K(b, &codes)
	}
}

// putQ6_K packs the lower four and the upper two bits of codes of 6 bits.
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
