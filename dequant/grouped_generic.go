package dequant

import "github.com/tensormap/tensormap/layout"

// groupsGeneric returns the portable kernel of code c, which expands whole groups. values has the value of each code before
// scaling. If hasBias is set, the kernel adds offsets after scaling. Otherwise it subtracts them before scaling.
func groupsGeneric(c layout.Code, values *[256]float32, hasBias bool) groupKernel {
	unpack, scale := unpackBits(c.Bits()), scalerOf(c, hasBias) // integers are their own values
	switch {
	case highFirst(c):
		unpack = func(dst []float32, codes []byte) { unpackHighFirst(dst, codes, values) }
	case c.Bits() == 4:
		unpack = func(dst []float32, codes []byte) { unpackLowFirst(dst, codes, values) }
	case c.Bits() == 8:
		unpack = func(dst []float32, codes []byte) { lookup(dst, codes, values) }
	}
	bits := c.Bits()
	return groupKernel{step: 8, run: func(dst []float32, codes []byte, scales, offsets []float32, group int) {
		size := group / 8 * bits // group is a multiple of 8
		for len(dst) >= group && len(codes) >= size && len(scales) > 0 && len(offsets) > 0 && group > 0 && size > 0 {
			unpack(dst[:group], codes[:size])
			scale(dst[:group], scales[0], offsets[0])
			dst, codes = dst[group:], codes[size:]
			scales, offsets = skipScales(scales, 1), skipScales(offsets, 1)
		}
	}}
}

// scalerOf returns the function that scales dst, the values of the codes of one group. c is the type of the codes. If hasBias is set, offset
// is a bias, and the function adds it after scaling. Otherwise offset is a zero point, and the function subtracts it before scaling. For
// int8/127, which has no zero points, the function ignores offset.
func scalerOf(c layout.Code, hasBias bool) func(dst []float32, scale, offset float32) {
	switch {
	case hasBias:
		return scaleAndAdd
	case c == layout.CodeInt8By127:
		return scaleBy127
	}
	return subtractAndScale
}

// unpackBits returns a function that sets dst to the unsigned integers packed in codes, until dst or codes ends. Each integer
// has the given number of bits. The first integer is in the lowest bits of codes[0], and the others follow without gaps.
func unpackBits(bits int) func(dst []float32, codes []byte) {
	mask := uint32(1)<<bits - 1
	return func(dst []float32, codes []byte) {
		w, have := uint32(0), 0 // bits that are not unpacked yet, and how many
		for _, b := range codes {
			w |= uint32(b) << (have & 31) // the masks spare the compiler longer shifts
			for have += 8; have >= bits && len(dst) > 0; have -= bits {
				dst[0] = float32(w & mask)
				dst, w = dst[1:], w>>(bits&31)
			}
		}
	}
}

// unpackLowFirst sets dst to the values of codes of 4 bits. A byte of codes has two, and the first is in the lower four
// bits. values[c] is the value of code c, and only the first 16 are used. unpackLowFirst stops when codes is used up, or
// when dst has fewer than two elements left.
func unpackLowFirst(dst []float32, codes []byte, values *[256]float32) {
	for len(dst) >= 2 && len(codes) >= 1 {
		dst[0], dst[1] = values[codes[0]&15], values[codes[0]>>4]
		dst, codes = dst[2:], codes[1:]
	}
}

// unpackHighFirst sets dst to the values of codes of 4 bits. A byte of codes has two, and the first is in the upper four
// bits. values[c] is the value of code c, and only the first 16 are used. unpackHighFirst stops when codes is used up, or
// when dst has fewer than two elements left.
func unpackHighFirst(dst []float32, codes []byte, values *[256]float32) {
	for len(dst) >= 2 && len(codes) >= 1 {
		dst[0], dst[1] = values[codes[0]>>4], values[codes[0]&15]
		dst, codes = dst[2:], codes[1:]
	}
}

// subtractAndScale replaces each value v in dst by (v − offset)·scale.
func subtractAndScale(dst []float32, scale, offset float32) {
	for i, v := range dst {
		dst[i] = (v - offset) * scale
	}
}

// scaleAndAdd replaces each value v in dst by v·scale + offset.
func scaleAndAdd(dst []float32, scale, offset float32) {
	for i, v := range dst {
		dst[i] = float32(v*scale) + offset
	}
}

// scaleBy127 replaces each value v in dst by v·scale·(1/127). It ignores the offset, which such codes do not have.
func scaleBy127(dst []float32, scale, _ float32) {
	for i, v := range dst {
		dst[i] = float32(v*scale) * (1.0 / 127)
	}
}

// rescale replaces each value v in dst by (v − offset)·scale or, if hasBias is set, by v·scale + offset. scales and offsets
// have an entry for each group, but a single offset serves all groups. groups[i] is the number of the group of value i. If
// groups is nil, value i belongs to group i. If a group has no scale, rescale stops at the first value of such a group, and
// returns the value's index. Otherwise it returns -1.
func rescale(dst, scales, offsets []float32, groups []int32, hasBias bool) int {
	offset := float32(0)
	if len(offsets) == 1 { // for all groups
		offset, offsets = offsets[0], nil
	}
	for i := range dst {
		g := uint(i)
		if i < len(groups) {
			g = uint(groups[i])
		}
		if g >= uint(len(scales)) {
			return i
		}
		if g < uint(len(offsets)) {
			offset = offsets[g]
		}
		if hasBias {
			dst[i] = float32(dst[i]*scales[g]) + offset
		} else {
			dst[i] = (dst[i] - offset) * scales[g]
		}
	}
	return -1
}
