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

// A fit finds scale and codes of x by the weights w. second is the offset of an affine fit, or the inverse of a
// symmetric one.
type fit func(codes []uint8, x, w []float32, s *search) (scale, second float32)

// A fitter makes sixteen fits of elems elements. The elements of a fit begin at x[f.first]; their weights are at the
// same place in w. tops, most and absolute are the fields of a search. The results have the bits that the function for
// one fit gives, except in NaNs. If the scale is 0, only that is set.
type fitter func(f *int32, x, w *float32, elems int, tops []float32, most, absolute int)

// fitters are the kernels of searches. Without one the function for one fit is called.
type fitters struct {
	affine, symmetric, byTurns, iq4 fitter
	// round sets codes to (x + offset)/scale for elems elements after the other, a multiple of sixteen, and clamps them.
	// Codes begin at low.
	round func(codes []uint8, x []float32, elems int, scales, offsets *float32, low, high int)
}

// A search says which inverse scales are tried: tops divided by the range or by the greatest element.
type search struct {
	most     int32
	tops     []float32
	absolute bool // the error is the sum of differences, not of their squares
}

// affineSearch tries first + step·i + most for i up to last. A better fit also moves the lower end of the range.
func affineSearch(most int32, first, step float32, last int, absolute bool) *search {
	s := &search{most: most, absolute: absolute}
	for i := 0; i <= last; i++ {
		s.tops = append(s.tops, first+times(step, float32(i))+float32(most))
	}
	return s
}

// symmetricSearch tries -(most + step/10), for step from -9 to 9.
func symmetricSearch(most int32) *search {
	s := &search{most: most}
	for step := int32(-9); step <= 9; step++ {
		if step != 0 {
			s.tops = append(s.tops, -(float32(most) + times(0.1, float32(step))))
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

// run calls a kernel. x holds whole fits of elems elements. Lanes without a fit repeat the first.
func (b *batch) run(f fitter, x []float32, elems int, s *search) {
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
	f(&b.first[0], &x[0], &b.weights[0], elems, s.tops, int(s.most), absolute)
}

// each fits x, elems elements at a time, by the weights: by a kernel or, without one, by the function for one fit. It sets
// scales, and seconds of affine fits.
func (b *batch) each(kernel fitter, one fit, x []float32, elems int, s *search) {
	if kernel != nil {
		b.run(kernel, x, elems, s)
		return
	}
	for at := 0; at < len(x); at += elems {
		b.scales[at/elems], b.seconds[at/elems] = one(b.codes[at:][:elems], x[at:][:elems], b.weights[at:][:elems], s)
	}
}

func (b *batch) affine(x []float32, elems int, s *search) {
	b.each(active.fit.affine, fitAffine, x, elems, s)
}

func (b *batch) symmetric(x []float32, elems int, s *search) {
	b.each(active.fit.symmetric, fitSymmetric, x, elems, s)
}

func (b *batch) byTurns(x []float32, s *search) { b.each(active.fit.byTurns, fitByTurns, x, 16, s) }

func (b *batch) iq4(x []float32) { b.each(active.fit.iq4, fitIQ4, x, 32, toIQ4) }

// affineCodes sets codes to those of the affine fit of x, which are elements from at on.
func (b *batch) affineCodes(codes []uint8, x []float32, at int, s *search) {
	switch l := at / len(x); {
	case active.fit.affine == nil:
		copy(codes, b.codes[at:])
	case b.scales[l] != 0:
		for i, v := range x {
			codes[i] = uint8(max(0, min(s.most, nearest(times(b.inverse[l], v-b.lowest[l])))))
		}
	default:
		fitAffine(codes, x, b.weights[at:][:len(x)], s)
	}
}

// symmetricCodes sets codes to those of the symmetric fit of x, which are elements from at on.
func (b *batch) symmetricCodes(codes []uint8, x []float32, at int, s *search) {
	switch l := at / len(x); {
	case active.fit.symmetric == nil:
		copy(codes, b.codes[at:])
	case b.scales[l] != 0:
		for i, v := range x {
			codes[i] = uint8(s.most + max(-s.most, min(s.most-1, nearest(times(b.seconds[l], v)))))
		}
	default:
		fitSymmetric(codes, x, b.weights[at:][:len(x)], s)
	}
}

// round sets codes to x, with an offset and a scale for elems elements after the other. Codes of a scale of 0 are those
// that fitted gives for elements of x from at on.
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

func roundGeneric(codes []uint8, x []float32, elems int, scales, offsets *[lanes]float32, low, high int32) {
	codes = codes[:len(x)]
	for i, v := range x {
		j := i / elems & 15
		codes[i] = uint8(max(low, min(high, nearest((v+offsets[j])/scales[j]))) - low)
	}
}
