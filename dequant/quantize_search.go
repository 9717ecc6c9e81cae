package dequant

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/dequant/internal/block"
)

// The encoders of types with a search. Each takes the importance of its elements, or nil for none.
// They do what ggml's quantize_q2_K … quantize_iq4_xs do (ggml-quants.c).

func encodeQ2_K(dst []byte, src, importance []float32) {
	for len(dst) >= 84 && len(src) >= 256 {
		var w [16]float32
		var codes [256]uint8
		var scales, mins, sums [16]float32
		variance := sumOfSquares(src[:256]) / 256
		for j := range 16 {
			x := src[16*j:][:16]
			if importance == nil {
				for i, v := range x {
					w[i] = abs(v)
				}
				scales[j], mins[j] = fitAffine(codes[16*j:][:16], x, w[:], 3, search{-0.5, 0.1, 15, true})
				continue
			}
			weigh(w[:], importance[16*j:][:16], x, variance)
			sums[j] = sumOf(w[:])
			scales[j], mins[j] = fitAffine(codes[16*j:][:16], x, w[:], 3, search{-0.9, 0.05, 36, false})
		}
		b := (*[84]byte)(dst)
		var d, dmin uint16
		if importance == nil {
			d, dmin = halves2_K(b, &scales, &mins)
		} else {
			var s, m [16]uint8
			d, dmin = block.Half(fitPositive(s[:], scales[:], sums[:], 15)), block.Half(fitPositive(m[:], mins[:], sums[:], 15))
			for j := range s {
				b[j] = s[j] | m[j]<<4
			}
		}
		binary.LittleEndian.PutUint16(b[80:], d)
		binary.LittleEndian.PutUint16(b[82:], dmin)
		for j := range 16 {
			roundAffine(codes[16*j:][:16], src[16*j:], times(block.Float(d), float32(b[j]&15)), times(block.Float(dmin), float32(b[j]>>4)), 3)
		}
		putTwoBits(b[16:80], &codes)
		dst, src, importance = dst[84:], src[256:], advance(importance, 256)
	}
}

// halves2_K sets the scales of a Q2_K block to fractions of the greatest, and returns d and dmin.
func halves2_K(b *[84]byte, scales, mins *[16]float32) (d, dmin uint16) {
	greatest, least := float32(0), float32(0)
	for j := range scales {
		if scales[j] > greatest {
			greatest = scales[j]
		}
		if mins[j] > least {
			least = mins[j]
		}
	}
	clear(b[:16])
	if greatest > 0 {
		inverse := 15 / greatest
		for j := range scales {
			b[j] = uint8(nearest(times(inverse, scales[j])))
		}
		d = block.Half(greatest / 15)
	}
	if least > 0 {
		inverse := 15 / least
		for j := range mins {
			b[j] |= uint8(nearest(times(inverse, mins[j])) << 4)
		}
		dmin = block.Half(least / 15)
	}
	return d, dmin
}

// roundAffine sets codes to (x + offset) / scale, unless the scale is 0.
func roundAffine(codes []uint8, x []float32, scale, offset float32, most int32) {
	if scale == 0 {
		return
	}
	for i := range codes {
		codes[i] = uint8(max(0, min(most, nearest((x[i]+offset)/scale))))
	}
}

// roundSymmetric sets codes to x / scale + most, unless the scale is 0.
func roundSymmetric(codes []uint8, x []float32, scale float32, most int32) {
	if scale == 0 {
		return
	}
	for i := range codes {
		codes[i] = uint8(max(-most, min(most-1, nearest(x[i]/scale))) + most)
	}
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

func encodeQ3_K(dst []byte, src, importance []float32) {
	for len(dst) >= 110 && len(src) >= 256 {
		var w [16]float32
		var codes [256]uint8
		var scales, sums [16]float32
		var levels [16]uint8
		var d uint16
		if importance == nil {
			for j := range 16 {
				scales[j] = fitByTurns(codes[16*j:][:16], src[16*j:][:16], 4)
			}
			if extreme, _ := firstExtreme(scales[:]); extreme != 0 {
				inverse := -32 / extreme
				for j, s := range scales {
					levels[j] = uint8(max(-32, min(31, int8(nearest(times(inverse, s))))) + 32)
				}
				d = block.Half(1 / inverse)
			} else {
				levels = [16]uint8{} // which stand for -32, under a scale of 0
			}
		} else {
			variance := 2 * sumOfSquares(src[:256]) / 256
			for j := range 16 {
				weigh(w[:], importance[16*j:][:16], src[16*j:][:16], variance)
				sums[j] = sumOf(w[:])
				scales[j] = fitSymmetric(codes[16*j:][:16], src[16*j:][:16], w[:], 4)
			}
			d = block.Half(fitSymmetric(levels[:], scales[:], sums[:], 32))
		}
		b := (*[110]byte)(dst)
		clear(b[:])
		for j, l := range levels {
			b[96+j&7] |= l & 15 << (j >> 3 * 4)
			b[104+j&3] |= l >> 4 << (j >> 2 * 2)
		}
		binary.LittleEndian.PutUint16(b[108:], d)
		for j, l := range levels {
			roundSymmetric(codes[16*j:][:16], src[16*j:], times(block.Float(d), float32(int8(l)-32)), 4)
		}
		for i := range codes {
			if codes[i] > 3 {
				b[i&31] |= 1 << (i >> 5)
				codes[i] -= 4
			}
		}
		putTwoBits(b[32:96], &codes)
		dst, src, importance = dst[110:], src[256:], advance(importance, 256)
	}
}

func encodeQ4_K(dst []byte, src, importance []float32) {
	for len(dst) >= 144 && len(src) >= 256 {
		var codes [256]uint8
		b := (*[144]byte)(dst)
		scalesK4(&codes, (*[16]byte)(b[:]), src, importance, 15, search{-1, 0.1, 20, false})
		putNibbles(b[16:], &codes)
		dst, src, importance = dst[144:], src[256:], advance(importance, 256)
	}
}

func encodeQ5_K(dst []byte, src, importance []float32) {
	for len(dst) >= 176 && len(src) >= 256 {
		var codes [256]uint8
		b := (*[176]byte)(dst)
		scalesK4(&codes, (*[16]byte)(b[:]), src, importance, 31, search{-0.5, 0.1, 15, false})
		clear(b[16:48])
		for i, c := range codes {
			b[16+i&31] |= c >> 4 << (i >> 5)
		}
		putNibbles(b[48:], &codes)
		dst, src, importance = dst[176:], src[256:], advance(importance, 256)
	}
}

// scalesK4 finds the codes of a Q4_K or Q5_K block, and writes the scales at its head.
func scalesK4(codes *[256]uint8, head *[16]byte, src, importance []float32, most int32, plain search) {
	var w [32]float32
	var scales, mins, sums [8]float32
	variance := 2 * sumOfSquares(src[:256]) / 256
	for j := range 8 {
		x := src[32*j:][:32]
		s := plain
		if importance == nil {
			mean := root(sumOfSquares(x) / 32)
			for i, v := range x {
				w[i] = mean + abs(v)
			}
		} else {
			s = search{-0.9, 0.05, 36, false}
			weigh(w[:], importance[32*j:][:32], x, variance)
			sums[j] = sumOf(w[:])
		}
		scales[j], mins[j] = fitAffine(codes[32*j:][:32], x, w[:], most, s)
	}
	var ls, lm [8]uint8
	var d, dmin uint16
	if importance == nil {
		d, dmin = sixBits(&ls, &scales), sixBits(&lm, &mins)
	} else {
		d, dmin = block.Half(fitPositive(ls[:], scales[:], sums[:], 63)), block.Half(fitPositive(lm[:], mins[:], sums[:], 63))
		if most == 31 { // ggml caps the codes of negative scales in Q5_K alone
			for j := range ls {
				ls[j], lm[j] = min(63, ls[j]), min(63, lm[j])
			}
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
	for j := range 8 {
		roundAffine(codes[32*j:][:32], src[32*j:], times(block.Float(d), float32(s[j])), times(block.Float(dmin), float32(m[j])), most)
	}
}

// sixBits sets codes to fractions of the greatest number, and returns the scale.
func sixBits(codes *[8]uint8, x *[8]float32) (scale uint16) {
	greatest, inverse := float32(0), float32(0)
	for _, v := range x {
		if v > greatest {
			greatest = v
		}
	}
	if greatest > 0 {
		inverse = 63 / greatest
	}
	for j, v := range x {
		codes[j] = min(63, uint8(nearest(times(inverse, v))))
	}
	return block.Half(greatest / 63)
}

func encodeQ6_K(dst []byte, src, importance []float32) {
	for len(dst) >= 210 && len(src) >= 256 {
		var squares [16]float32
		var codes [256]uint8
		var scales [16]float32
		for j := range 16 {
			x, w := src[16*j:][:16], squares[:]
			if importance == nil {
				for i, v := range x {
					w[i] = times(v, v)
				}
			} else {
				w = importance[16*j:][:16]
			}
			scales[j] = fitSymmetric(codes[16*j:][:16], x, w, 32)
		}
		b := (*[210]byte)(dst)
		dst = dst[210:]
		if extreme, magnitude := firstExtreme(scales[:]); magnitude < tiny {
			clear(b[:])
		} else {
			inverse := -128 / extreme
			d := block.Half(1 / inverse)
			binary.LittleEndian.PutUint16(b[208:], d)
			for j, s := range scales {
				l := int8(min(127, nearest(times(inverse, s))))
				b[192+j] = byte(l)
				roundSymmetric(codes[16*j:][:16], src[16*j:], times(block.Float(d), float32(l)), 32)
			}
			putQ6_K(b, &codes)
		}
		src, importance = src[256:], advance(importance, 256)
	}
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

// fitIQ4 returns the scale of 32 numbers with the levels of IQ4_NL. w holds the weights.
func fitIQ4(x, w []float32) float32 {
	extreme, magnitude := firstExtreme(x)
	if magnitude < tiny {
		return 0
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
	d := qx / qq
	best := times(d, qx)
	for try := int32(-7); try <= 7; try++ {
		qx, qq := sums(float32(try+int32(block.IQ4[0])) / extreme)
		if qq > 0 && times(qx, qx) > times(best, qq) {
			d = qx / qq
			best = times(d, qx)
		}
	}
	return d
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

// weighIQ4 fills w with the weights of 32 numbers.
func weighIQ4(w *[32]float32, x, importance []float32, variance float32) {
	if importance != nil {
		weigh(w[:], importance[:32], x, variance)
		return
	}
	for i, v := range x {
		w[i] = times(v, v)
	}
}

func inverseOf(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
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

func encodeIQ4_NL(dst []byte, src, importance []float32) {
	for len(dst) >= 18 && len(src) >= 32 {
		var w [32]float32
		x := src[:32]
		weighIQ4(&w, x, importance, times(sumOfSquares(x), 2./32))
		d := fitIQ4(x, w[:])
		putFitted((*[2]byte)(dst), d)
		putIQ4(dst[2:18], x, inverseOf(d))
		dst, src, importance = dst[18:], src[32:], advance(importance, 32)
	}
}

func encodeIQ4_XS(dst []byte, src, importance []float32) {
	for len(dst) >= 136 && len(src) >= 256 {
		var w [32]float32
		var scales [8]float32
		variance := times(sumOfSquares(src[:256]), 2./256)
		for j := range scales {
			x := src[32*j:][:32]
			weighIQ4(&w, x, advance(importance, 32*j), variance)
			scales[j] = fitIQ4(x, w[:])
		}
		extreme, _ := firstExtreme(scales[:])
		d := -extreme / 32
		inverse := inverseOf(d)
		b := (*[136]byte)(dst)
		clear(b[:8])
		binary.LittleEndian.PutUint16(b[0:], block.Half(d))
		high := uint16(0)
		for j, s := range scales {
			l := max(-32, min(31, nearest(times(inverse, s))))
			putIQ4(b[8+16*j:][:16], src[32*j:][:32], inverseOf(times(d, float32(l))))
			l += 32
			b[4+j/2] |= byte(l&15) << (j & 1 * 4)
			high |= uint16(l>>4) << (2 * j)
		}
		binary.LittleEndian.PutUint16(b[2:], high)
		dst, src, importance = dst[136:], src[256:], advance(importance, 256)
	}
}

func encodeMXFP4(dst []byte, src []float32) {
	for len(dst) >= 17 && len(src) >= 32 {
		x := (*[32]float32)(src)
		var e uint8
		if _, magnitude := firstExtreme(x[:]); magnitude > 0 {
			e = uint8(truncate(floorLog2(magnitude) - 2 + 127))
		}
		dst[0] = e
		var levels [16]float32
		for i := range levels {
			levels[i] = float32(block.FP4[i]) * block.E8M0Half(e)
		}
		for i := range 16 {
			dst[1+i] = nearestFP4(&levels, x[i]) | nearestFP4(&levels, x[i+16])<<4
		}
		dst, src = dst[17:], src[32:]
	}
}

// floorLog2 returns C's floorf(log2f(f)). Just below a power of two the logarithm rounds up to
// that power's.
func floorLog2(f float32) float32 {
	return float32(math.Floor(float64(float32(math.Log2(float64(f))))))
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

// weighted returns the encoder of a row of blocks of 32 whose weights depend on the row's variance.
func weighted(size int, encode func(b []byte, x, w []float32)) func(dst []byte, row, importance []float32) {
	return func(dst []byte, row, importance []float32) {
		var w [32]float32
		variance := sumOfSquares(row) / float32(len(row))
		for ; len(row) >= 32 && len(dst) >= size; dst, row, importance = dst[size:], row[32:], importance[32:] {
			weigh(w[:], importance[:32], row[:32], variance)
			encode(dst[:size], row[:32], w[:])
		}
	}
}

func weightedQ4_0(b []byte, x, w []float32) {
	var codes [32]uint8
	putFitted((*[2]byte)(b), fitSymmetric(codes[:], x, w, 8))
	putHalves32(b[2:], nil, &codes)
}

func weightedQ5_0(b []byte, x, w []float32) {
	var codes [32]uint8
	putFitted((*[2]byte)(b), fitSymmetric(codes[:], x, w, 16))
	putHalves32(b[6:], b[2:6], &codes)
}

func weightedQ4_1(b []byte, x, w []float32) {
	var codes [32]uint8
	scale, offset := fitAffine(codes[:], x, w, 15, search{-0.9, 0.05, 36, false})
	putHalf((*[2]byte)(b), scale)
	putHalf((*[2]byte)(b[2:]), -offset)
	putHalves32(b[4:], nil, &codes)
}

func weightedQ5_1(b []byte, x, w []float32) {
	var codes [32]uint8
	scale, offset := fitAffine(codes[:], x, w, 31, search{-0.9, 0.05, 36, false})
	putHalf((*[2]byte)(b), scale)
	putHalf((*[2]byte)(b[2:]), -offset)
	putHalves32(b[8:], b[4:8], &codes)
}

// putHalves32 packs the low four bits of 32 codes, and the fifth into high unless that is nil.
func putHalves32(low, high []byte, codes *[32]uint8) {
	fifth := uint32(0)
	for i := range 16 {
		low[i] = codes[i]&15 | codes[i+16]<<4
		fifth |= uint32(codes[i]>>4&1)<<i | uint32(codes[i+16]>>4&1)<<(i+16)
	}
	if high != nil {
		binary.LittleEndian.PutUint32(high, fifth)
	}
}
