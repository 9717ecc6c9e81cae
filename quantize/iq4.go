package quantize

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/internal/block"
)

// fitIQ4 returns the scale d with the least error of x ≈ d·level, weighted by w, where level is one of IQ4_NL's sixteen. It tries
// the inverse scales of s. It returns 0 if x is nearly all zeros, and sets no codes.
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

// weighIQ4 sets b.weights for the blocks of x, of elems elements each: by importance and x or, if importance is nil, to x².
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

// putIQ4 writes 16 bytes to b: the codes of 32 numbers x, each the index of IQ4_NL's level nearest to x·inverse.
func putIQ4(b []byte, x []float32, inverse float32) {
	for i := range 16 {
		b[i] = nearestIQ4(times(inverse, x[i])) | nearestIQ4(times(inverse, x[i+16]))<<4
	}
}

// encodeIQ4_NL writes blocks of 32 values as IQ4_NL: a scale and nibbles that index a codebook.
func encodeIQ4_NL(b *batch, dst []byte, x, importance []float32) {
	b.weighIQ4(x, importance, 32)
	b.fitEach(x, 32, toIQ4)
	for at := 0; at < len(x); at += 32 {
		d := b.scales[at/32]
		putScale((*[2]byte)(dst), d)
		putIQ4(dst[2:18], x[at:], reciprocal(d))
		dst = dst[18:]
	}
}

// encodeIQ4_XS writes blocks of 256 values as IQ4_XS: a scale, eight fine scales, and nibbles that index a codebook.
func encodeIQ4_XS(b *batch, dst []byte, x, importance []float32) {
	b.weighIQ4(x, importance, 256)
	b.fitEach(x, 32, toIQ4)
	for at := 0; at < len(x); at += 256 {
		putIQ4_XS((*[136]byte)(dst), x[at:], (*[8]float32)(b.scales[at/32:]))
		dst = dst[136:]
	}
}

// putIQ4_XS writes the 256 elements of x to b, a block of IQ4_XS. scales has the scale that was fitted to every 32 elements.
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
