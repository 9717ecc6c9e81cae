package quantize

import "sync"

// lanes is the number of fits that are made at once.
const lanes = 16

// fitted has the results of up to sixteen fits, and scratch memory of the kernels that make them. Kernels in assembly
// address its fields by their offsets. Each array of lanes has one number for each fit.
type fitted struct {
	first   [lanes]int32   // where a fit's elements begin
	scales  [lanes]float32 // the results
	seconds [lanes]float32 // offsets of affine fits, inverse scales of symmetric ones
	inverse [lanes]float32 // the codes of an affine fit are (x − lowest)·inverse, rounded
	lowest  [lanes]float32
	spare   [3][lanes]float32
	rows    [3][32][lanes]float32 // elements, weights, codes
}

// A fit sets codes to the codes of x with the least error weighted by w, and returns their scale. second is the offset
// of an affine fit, or the inverse scale of a symmetric one.
type fit func(codes []uint8, x, w []float32, s *search) (scale, second float32)

// A fitter makes sixteen fits of elems elements, and stores them in the fitted that begins at f. The elements of fit i
// begin at x[first[i]], and their weights at the same place in w. tops, maxCode and absolute are those of a search.
// The results have the bits that the fit gives, except in NaNs. If the scale is 0, nothing else is set.
type fitter func(f *int32, x, w *float32, elems int, tops []float32, maxCode, absolute int)

// fitters are the kernels of searches. A nil one means that the portable fit is called for one fit after the other.
type fitters struct {
	affine, symmetric, byTurns, iq4 fitter
	// round sets codes to (x + offset)/scale, rounded, clamped to [low, high] and less low. Every elems elements, a
	// multiple of sixteen, have the next scale and offset.
	round func(codes []uint8, x []float32, elems int, scales, offsets *float32, low, high int)
}

// A search says which inverse scales a fit tries: each of tops, divided by the range of the elements or by the
// greatest.
type search struct {
	maxCode  int32 // the greatest code of an affine fit; of a symmetric one the greatest magnitude
	tops     []float32
	absolute bool // the error is the sum of differences, not of their squares
}

// affineSearch returns the search that tries first + step·i + maxCode for i from 0 to last.
func affineSearch(maxCode int32, first, step float32, last int, absolute bool) *search {
	s := &search{maxCode: maxCode, absolute: absolute}
	for i := 0; i <= last; i++ {
		s.tops = append(s.tops, first+times(step, float32(i))+float32(maxCode))
	}
	return s
}

// symmetricSearch returns the search that tries -(maxCode + step/10), for step from -9 to 9 without 0.
func symmetricSearch(maxCode int32) *search {
	s := &search{maxCode: maxCode}
	for step := int32(-9); step <= 9; step++ {
		if step != 0 {
			s.tops = append(s.tops, -(float32(maxCode) + times(0.1, float32(step))))
		}
	}
	return s
}

var (
	plain2_K  = affineSearch(3, -0.5, 0.1, 15, true)
	plain4_K  = affineSearch(15, -1, 0.1, 20, false)
	plain5_K  = affineSearch(31, -0.5, 0.1, 15, false)
	weighed2  = affineSearch(3, -0.9, 0.05, 36, false)
	weighed4  = affineSearch(15, -0.9, 0.05, 36, false)
	weighed5  = affineSearch(31, -0.9, 0.05, 36, false)
	toFour    = symmetricSearch(4)
	toEight   = symmetricSearch(8)
	toSixteen = symmetricSearch(16)
	to32      = symmetricSearch(32)
	toIQ4     = &search{tops: []float32{-134, -133, -132, -131, -130, -129, -128, -127, -126, -125, -124, -123, -122, -121, -120}}
)

// A batch makes up to sixteen fits at once.
type batch struct {
	fitted
	weights [512]float32 // of the elements, side by side
	codes   [512]uint8
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// runKernel makes up to sixteen fits by kernel f and stores the results in b. x has the elements of all fits, elems each. Lanes
// without a fit repeat the first one.
func (b *batch) runKernel(f fitter, x []float32, elems int, s *search) {
	for l := range b.first {
		b.first[l] = 0
		if at := l * elems; at < len(x) {
			b.first[l] = int32(at)
		}
	}
	absolute := 0
	if s.absolute {
		absolute = 1
	}
	f(&b.first[0], &x[0], &b.weights[0], elems, s.tops, int(s.maxCode), absolute)
}

// fitEach makes a fit of every elems elements of x, weighted by b.weights: by kernel or, if that is nil, by the portable function
// one, which sets b.codes too. It sets b.scales and b.seconds: offsets of affine fits, inverse scales of symmetric ones.
func (b *batch) fitEach(kernel fitter, one fit, x []float32, elems int, s *search) {
	if kernel != nil {
		b.runKernel(kernel, x, elems, s)
		return
	}
	for at := 0; at < len(x); at += elems {
		b.scales[at/elems], b.seconds[at/elems] = one(b.codes[at:][:elems], x[at:][:elems], b.weights[at:][:elems], s)
	}
}

// affine fits a scale and an offset to every elems elements of x, and sets b.scales and b.seconds to them. See fitAffine.
func (b *batch) affine(x []float32, elems int, s *search) {
	b.fitEach(active.fit.affine, fitAffine, x, elems, s)
}

// symmetric fits a scale to every elems elements of x, and sets b.scales to them. See fitSymmetric.
func (b *batch) symmetric(x []float32, elems int, s *search) {
	b.fitEach(active.fit.symmetric, fitSymmetric, x, elems, s)
}

// byTurns fits a scale to every 16 elements of x, and sets b.scales to them. See fitByTurns.
func (b *batch) byTurns(x []float32, s *search) { b.fitEach(active.fit.byTurns, fitByTurns, x, 16, s) }

// iq4 fits a scale of IQ4_NL's levels to every 32 elements of x, and sets b.scales to them. See fitIQ4.
func (b *batch) iq4(x []float32) { b.fitEach(active.fit.iq4, fitIQ4, x, 32, toIQ4) }

// affineCodes sets codes to the codes of x by the fit that affine has made of it. x begins at element at of the batch. A fit whose
// scale is 0 has no codes yet and is made again.
func (b *batch) affineCodes(codes []uint8, x []float32, at int, s *search) {
	switch l := at / len(x); {
	case active.fit.affine == nil:
		copy(codes, b.codes[at:])
	case b.scales[l] != 0:
		for i, v := range x {
			codes[i] = uint8(max(0, min(s.maxCode, nearest(times(b.inverse[l], v-b.lowest[l])))))
		}
	default:
		fitAffine(codes, x, b.weights[at:][:len(x)], s)
	}
}

// symmetricCodes sets codes to the codes of x by the fit that symmetric has made of it. x begins at element at of the batch. A fit
// whose scale is 0 has no codes yet and is made again.
func (b *batch) symmetricCodes(codes []uint8, x []float32, at int, s *search) {
	switch l := at / len(x); {
	case active.fit.symmetric == nil:
		copy(codes, b.codes[at:])
	case b.scales[l] != 0:
		for i, v := range x {
			codes[i] = uint8(s.maxCode + max(-s.maxCode, min(s.maxCode-1, nearest(times(b.seconds[l], v)))))
		}
	default:
		fitSymmetric(codes, x, b.weights[at:][:len(x)], s)
	}
}

// round sets codes to (x + offset)/scale, rounded, clamped to [low, high] and less low, for 256 elements. Every elems elements have
// the next scale and offset. Where a scale is 0, it calls fitted to set the codes of the elements from x[at] on instead.
func round(codes *[256]uint8, x []float32, elems int, scales, offsets *[lanes]float32, low, high int32, fitted func(codes []uint8, at int)) {
	if f := active.fit.round; f != nil {
		f(codes[:], x[:256], elems, &scales[0], &offsets[0], int(low), int(high))
	} else {
		roundGeneric(codes[:], x[:256], elems, scales, offsets, low, high)
	}
	for at := 0; at < 256; at += elems {
		if scales[at/elems] == 0 {
			fitted(codes[at:][:elems], at)
		}
	}
}

// roundGeneric does what fitters.round does, portably: it sets codes to (x + offset)/scale, rounded, clamped to [low, high], less low.
func roundGeneric(codes []uint8, x []float32, elems int, scales, offsets *[lanes]float32, low, high int32) {
	codes = codes[:len(x)]
	for i, v := range x {
		j := i / elems & 15
		codes[i] = uint8(max(low, min(high, nearest((v+offsets[j])/scales[j]))) - low)
	}
}
