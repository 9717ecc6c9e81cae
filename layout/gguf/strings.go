package gguf

import "encoding/binary"

var le = binary.LittleEndian

// skipStrings finds the end of those of n strings that lie in b from its start on, each
// with its length before it: their size and how many they are.
//
// This is what opening a model with a vocabulary takes its time for. Every string's place
// hangs on the length of the one before, so that a loop waits for memory and not for its
// own arithmetic, and in four lanes it waits a quarter as often.
func skipStrings(b []byte, n uint64, w width) (size, count uint64) {
	for count < n {
		var s, k uint64
		if w == 8 && len(b)-int(size) >= block {
			s, k = skipBlock(b[size:][:block])
		}
		if k == 0 || k > n-count {
			s, k = skipOneByOne(b[size:], min(n-count, few), w)
		}
		if k == 0 {
			break
		}
		size += s
		count += k
	}
	return size, count
}

// skipOneByOne is skipStrings without its lanes.
func skipOneByOne(b []byte, n uint64, w width) (size, count uint64) {
	left := b
	for count < n && uint64(len(left)) >= uint64(w) {
		s := w.uint(left)
		if s > uint64(len(left))-uint64(w) {
			break
		}
		left = left[uint64(w)+s:]
		count++
	}
	return uint64(len(b) - len(left)), count
}

const (
	few  = 1 << 10  // strings to pass one by one before the next attempt at lanes
	lane = 16 << 10 // bytes
	// longest is the longest string met in a lane.
	longest = 1 << 10
	// block is what four lanes take, with room for the last string of the last.
	block = 4*lane + 8 + longest
)

// skipBlock walks through b, of block bytes, in four lanes. That these begin where strings
// begin is a guess until the lane before has ended just there; then what the lanes did
// is what one walk from the start would have done. A count of 0 says that the guess was
// wrong, or a string long.
func skipBlock(b []byte) (size, count uint64) {
	cut1, cut2, cut3 := cut(b, lane), cut(b, 2*lane), cut(b, 3*lane)
	// A lane's slice has 8 bytes more than the lane, so that whatever lies before its end
	// can be read as a length.
	b0, b1, b2, b3 := b[:cut1+8], b[cut1:cut2+8], b[cut2:cut3+8], b[cut3:4*lane+8]
	var i0, i1, i2, i3 int
	for i0 < len(b0)-8 && i1 < len(b1)-8 && i2 < len(b2)-8 && i3 < len(b3)-8 {
		n0 := le.Uint64(b0[i0 : i0+8 : i0+8]) // sliced like this, it takes one check and no masking
		n1 := le.Uint64(b1[i1 : i1+8 : i1+8])
		n2 := le.Uint64(b2[i2 : i2+8 : i2+8])
		n3 := le.Uint64(b3[i3 : i3+8 : i3+8])
		if n0|n1|n2|n3 >= longest {
			return 0, 0
		}
		i0 += 8 + int(n0)
		i1 += 8 + int(n1)
		i2 += 8 + int(n2)
		i3 += 8 + int(n3)
		count += 4
	}
	i0, count = finish(b0, i0, count)
	i1, count = finish(b1, i1, count)
	i2, count = finish(b2, i2, count)
	i3, count = finish(b3, i3, count)
	if i0 != len(b0)-8 || i1 != len(b1)-8 || i2 != len(b2)-8 || i3 < len(b3)-8 {
		return 0, 0
	}
	return uint64(cut3 + i3), count
}

// finish walks on alone through a lane, from i to its end. A string that is too long leaves
// it before that.
func finish(b []byte, i int, count uint64) (int, uint64) {
	for i < len(b)-8 {
		n := le.Uint64(b[i : i+8 : i+8])
		if n >= longest {
			break
		}
		i += 8 + int(n)
		count++
	}
	return i, count
}

// cut is where, from at on, a string seems to begin: at a byte with seven zeros behind it.
// In text without NULs that is the length of a string of 1 to 255 bytes, and nothing else.
func cut(b []byte, at int) int {
	for i := at; i < at+longest; i++ {
		if le.Uint64(b[i:]) < 256 {
			return i
		}
	}
	return at
}
