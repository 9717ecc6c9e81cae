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
// begin at x[first[i]], and their weights at the same place in w. tops, maxCode and absolute are as in a search.
// The results have the bits that the fit gives, except in NaNs. If the scale is 0, nothing else is set.
type fitter func(f *int32, x, w *float32, elems int, tops []float32, maxCode, absolute int)

// fitters are the kernels of searches. A nil one means that the portable fit is called for one fit after the other.
type fitters struct {
	affine, symmetric, byTurns, iq4 fitter
	// round sets codes to (x + offset)/scale, rounded, clamped to [low, high] and less low. Every elems elements, a
	// multiple of sixteen, have the next scale and offset.
	round func(codes []uint8, x []float32, elems int, scales, offsets *float32, low, high int)
}

// A search says how a fit is made, and which inverse scales it tries: each of tops, divided by the range of the elements or by the
// greatest.
type search struct {
	fit      fit                   // the portable one
	kernel   func(*fitters) fitter // that makes the same fits; nil in a level without one
	maxCode  int32                 // the greatest code of an affine fit; of a symmetric one the greatest magnitude
	low      int32                 // the least number that becomes a code: the number of code 0
	tops     []float32
	absolute bool // the error is the sum of differences, not of their squares
}

// affineSearch returns the search that tries first + step·i + maxCode for i from 0 to last.
func affineSearch(maxCode int32, first, step float32, last int, absolute bool) *search {
	s := &search{fit: fitAffine, kernel: func(f *fitters) fitter { return f.affine }, maxCode: maxCode, absolute: absolute}
	for i := 0; i <= last; i++ {
		s.tops = append(s.tops, first+times(step, float32(i))+float32(maxCode))
	}
	return s
}

// symmetricSearch returns the search that tries -(maxCode + step/10), for step from -9 to 9 without 0.
func symmetricSearch(maxCode int32) *search {
	s := &search{fit: fitSymmetric, kernel: func(f *fitters) fitter { return f.symmetric }, maxCode: maxCode, low: -maxCode}
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
	byTurns4  = &search{fit: fitByTurns, kernel: func(f *fitters) fitter { return f.byTurns }, maxCode: 4}
	toIQ4     = &search{fit: fitIQ4, kernel: func(f *fitters) fitter { return f.iq4 }, tops: []float32{
		-134, -133, -132, -131, -130, -129, -128, -127, -126, -125, -124, -123, -122, -121, -120,
	}}
)

// A batch makes up to sixteen fits at once.
type batch struct {
	fitted
	weights  [512]float32 // of the elements, side by side
	codes    [512]uint8
	variance float32 // of the row, for types that want it
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// fitEach makes a fit of every elems elements of x, weighted by b.weights: by a kernel or, without one, by the portable function,
// which sets b.codes too. It sets b.scales and b.seconds: offsets of affine fits, inverse scales of symmetric ones. x has up to
// sixteen fits. In a kernel, lanes without a fit repeat the first one.
func (b *batch) fitEach(x []float32, elems int, s *search) {
	kernel := s.kernel(&active.fit)
	if kernel == nil {
		for at := 0; at < len(x); at += elems {
			b.scales[at/elems], b.seconds[at/elems] = s.fit(b.codes[at:][:elems], x[at:][:elems], b.weights[at:][:elems], s)
		}
		return
	}
	clear(b.first[:])
	for l := range len(x) / elems {
		b.first[l] = int32(l * elems)
	}
	absolute := 0
	if s.absolute {
		absolute = 1
	}
	kernel(&b.first[0], &x[0], &b.weights[0], elems, s.tops, int(s.maxCode), absolute)
}

// codesOf sets codes to the codes of x by the affine or symmetric fit that fitEach has made of it. x begins at element at of the batch. A
// fit by a kernel whose scale is 0 has no codes yet and is made again.
func (b *batch) codesOf(codes []uint8, x []float32, at int, s *search) {
	l := at / len(x)
	switch inverse, lowest, high := b.inverse[l], b.lowest[l], s.maxCode; {
	case s.kernel(&active.fit) == nil:
		copy(codes, b.codes[at:])
	case b.scales[l] == 0:
		s.fit(codes, x, b.weights[at:][:len(x)], s)
	default:
		if s.low < 0 { // a symmetric fit
			inverse, lowest, high = b.seconds[l], 0, s.maxCode-1
		}
		for i, v := range x {
			codes[i] = uint8(max(s.low, min(high, nearest(times(inverse, v-lowest)))) - s.low)
		}
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
