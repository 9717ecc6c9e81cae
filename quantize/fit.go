package quantize

import "math"

// The fits below choose the scale of a few numbers and their codes, for the least weighted error. They
// follow ggml's searches (ggml-quants.c: make_qx_quants, make_q3_quants, make_qkx2_quants,
// make_qkx3_quants, make_qp_quants) operation by operation, so that the bits are the same. Every
// product is rounded before it is added: see Encode.

// tiny is the magnitude below which numbers count as zeros: GROUP_MAX_EPS.
const tiny = 1e-15

// nearest rounds to the nearest integer, ties to even, by the sum with 1.5·2²³. Beyond ±2²² the low
// bits of the sum are the result, as in ggml's nearest_int. A NaN, whose bits machines disagree on, becomes 0.
func nearest(f float32) int32 {
	if f != f {
		return 0
	}
	return int32(math.Float32bits(float32(f)+12582912)&0x7fffff) - 0x400000
}

// times returns the rounded product, which no compiler may contract with a sum.
func times(a, b float32) float32 { return float32(a * b) }

// root returns the square root of f.
func root(f float32) float32 { return float32(math.Sqrt(float64(f))) }

// sumOfSquares returns the sum of squares, each rounded, added in order.
func sumOfSquares(x []float32) (sum float32) {
	for _, v := range x {
		sum += times(v, v)
	}
	return sum
}

// sumOf returns the sum of x, added in order.
func sumOf(x []float32) (sum float32) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// weigh sets each weight in w to importance · √(variance + x²), of as many elements as x has.
func weigh(w, importance, x []float32, variance float32) {
	for i, v := range x {
		w[i] = times(importance[i], root(variance+times(v, v)))
	}
}

// firstExtreme returns the element of greatest magnitude, with its sign, and its magnitude.
func firstExtreme(x []float32) (value, magnitude float32) {
	for _, v := range x {
		if a := abs(v); a > magnitude {
			value, magnitude = v, a
		}
	}
	return value, magnitude
}

// fitAffine finds the scale and offset with the least error of x ≈ scale·code − offset, weighted by w, for up to 32 elements. It sets
// codes, from 0 to s.maxCode. It tries the inverse scales of s. A better fit also moves the lower end of the range for the next try.
func fitAffine(codes []uint8, x, w []float32, s *search) (scale, offset float32) {
	maxCode := s.maxCode
	codes, w = codes[:len(x)], w[:len(x)]
	low, high := x[0], x[0]
	sumW := w[0]
	sumX := times(sumW, x[0])
	for i := 1; i < len(x); i++ {
		if x[i] < low {
			low = x[i]
		}
		if x[i] > high {
			high = x[i]
		}
		sumW += w[i]
		sumX += times(w[i], x[i])
	}
	if low > 0 {
		low = 0
	}
	if high == low {
		clear(codes)
		return 0, -low
	}
	inverse := float32(maxCode) / (high - low)
	scale = 1 / inverse
	for i, v := range x {
		codes[i] = uint8(max(0, min(maxCode, nearest(times(inverse, v-low)))))
	}
	least := affineError(codes, x, w, scale, low, s.absolute)
	var tried [32]uint8
	from := low
	for _, top := range s.tops {
		inverse := top / (high - from)
		var sumL, sumLL, sumXL float32
		for i, v := range x {
			l := max(0, min(maxCode, nearest(times(inverse, v-from))))
			tried[i] = uint8(l)
			wl := times(w[i], float32(l))
			sumL += wl
			sumLL += times(wl, float32(l))
			sumXL += times(wl, v)
		}
		det := times(sumW, sumLL) - times(sumL, sumL)
		if !(det > 0) {
			continue
		}
		newScale := (times(sumW, sumXL) - times(sumX, sumL)) / det
		newLow := (times(sumLL, sumX) - times(sumL, sumXL)) / det
		if newLow > 0 {
			newLow, newScale = 0, sumXL/sumLL
		}
		if e := affineError(tried[:len(x)], x, w, newScale, newLow, s.absolute); e < least {
			copy(codes, tried[:])
			least, scale, from = e, newScale, newLow
		}
	}
	return scale, -from
}

// affineError returns the weighted error of scale·code + low: the sum of absolute differences, or of their squares.
func affineError(codes []uint8, x, w []float32, scale, low float32, absolute bool) (sum float32) {
	codes, w = codes[:len(x)], w[:len(x)]
	for i, v := range x {
		diff := times(scale, float32(codes[i])) + low - v
		if absolute {
			diff = abs(diff)
		} else {
			diff = times(diff, diff)
		}
		sum += times(w[i], diff)
	}
	return sum
}

// fitSymmetric finds the scale with the least error of x ≈ scale·(code − s.maxCode), weighted by w. It sets codes, from 0 to
// 2·s.maxCode − 1, and returns the scale and the inverse by which codes were rounded. Both are 0 if x is nearly all zeros.
func fitSymmetric(codes []uint8, x, w []float32, s *search) (scale, inverse float32) {
	maxCode := s.maxCode
	codes, w = codes[:len(x)], w[:len(x)]
	extreme, magnitude := firstExtreme(x)
	if magnitude < tiny {
		clear(codes)
		return 0, 0
	}
	sums := func(inverse float32) (lx, ll float32) {
		for i, v := range x {
			l := float32(max(-maxCode, min(maxCode-1, nearest(times(inverse, v)))))
			lx += times(times(w[i], v), l)
			ll += times(times(w[i], l), l)
		}
		return lx, ll
	}
	inverse = -float32(maxCode) / extreme
	lx, ll := sums(inverse)
	if ll != 0 {
		scale = lx / ll
	}
	best := times(scale, lx)
	for _, top := range s.tops {
		tried := top / extreme
		lx, ll := sums(tried)
		if ll > 0 && times(lx, lx) > times(best, ll) {
			inverse, scale = tried, lx/ll
			best = times(scale, lx)
		}
	}
	for i, v := range x {
		codes[i] = uint8(maxCode + max(-maxCode, min(maxCode-1, nearest(times(inverse, v)))))
	}
	return scale, inverse
}

// fitByTurns finds what fitSymmetric finds, with the weights x², by changing one code at a time while that lessens the error. It
// takes up to 16 elements, sets codes, and returns the scale.
func fitByTurns(codes []uint8, x, _ []float32, s *search) (scale, _ float32) {
	maxCode := s.maxCode
	codes = codes[:len(x)]
	extreme, magnitude := firstExtreme(x)
	if magnitude < tiny {
		clear(codes)
		return 0, 0
	}
	var ints [16]float32
	inverse := -float32(maxCode) / extreme
	var lx, ll float32
	for i, v := range x {
		l := float32(max(-maxCode, min(maxCode-1, nearest(times(inverse, v)))))
		ints[i] = l
		w := times(v, v)
		lx += times(times(w, v), l)
		ll += times(times(w, l), l)
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, old := times(v, v), ints[i]
			newLX := lx - times(times(w, v), old)
			if !(newLX > 0) {
				continue
			}
			newLL := ll - times(times(w, old), old)
			l := float32(max(-maxCode, min(maxCode-1, nearest(times(v, newLL)/newLX))))
			if l == old {
				continue
			}
			newLX += times(times(w, v), l)
			newLL += times(times(w, l), l)
			if newLL > 0 && times(times(newLX, newLX), ll) > times(times(lx, lx), newLL) {
				ints[i], lx, ll, changed = l, newLX, newLL, true
			}
		}
		if !changed {
			break
		}
	}
	for i := range codes {
		codes[i] = uint8(int32(ints[i]) + maxCode)
	}
	if ll > 0 {
		scale = lx / ll
	}
	return scale, 0
}

// fitPositive finds the scale with the least error of x ≈ scale·code, weighted by w, for numbers that are scales themselves. It sets
// codes, up to maxCode, and returns the scale. A negative x gets the low eight bits of a negative code, as in ggml.
func fitPositive(codes []uint8, x, w []float32, maxCode int32) (scale float32) {
	codes, w = codes[:len(x)], w[:len(x)]
	var highest float32
	for _, v := range x {
		if !(highest > v) {
			highest = v
		}
	}
	if highest < tiny {
		clear(codes)
		return 0
	}
	top := float32(maxCode)
	inverse := top / highest
	scale = 1 / inverse
	var least float32
	for i, v := range x {
		diff := v - times(scale, float32(uint8(nearest(times(inverse, v)))))
		least += times(times(w[i], diff), diff)
	}
	for step := int32(-4); step <= 4; step++ {
		if step == 0 {
			continue
		}
		tried := (times(0.1, float32(step)) + top) / highest
		scale := 1 / tried
		var e float32
		for i, v := range x {
			diff := v - times(scale, float32(min(maxCode, nearest(times(tried, v)))))
			e += times(times(w[i], diff), diff)
		}
		if e < least {
			least, inverse = e, tried
		}
	}
	var lx, ll float32
	for i, v := range x {
		l := min(maxCode, nearest(times(inverse, v)))
		codes[i] = uint8(l)
		lx += times(times(w[i], v), float32(l))
		ll += times(times(w[i], float32(l)), float32(l))
	}
	for range 5 {
		changed := false
		for i, v := range x {
			old := float32(codes[i])
			newLX := lx - times(times(w[i], v), old)
			newLL := ll - times(times(w[i], old), old)
			if !(newLX > 0 && newLL > 0) {
				continue
			}
			l := min(maxCode, nearest(times(v, newLL)/newLX))
			if l == int32(codes[i]) {
				continue
			}
			newLX += times(times(w[i], v), float32(l))
			newLL += times(times(w[i], float32(l)), float32(l))
			if times(times(newLX, newLX), ll) > times(times(lx, lx), newLL) {
				codes[i], lx, ll, changed = uint8(l), newLX, newLL, true
			}
		}
		if !changed {
			break
		}
	}
	if ll > 0 {
		return lx / ll
	}
	return 0
}
