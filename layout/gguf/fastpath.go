package gguf

// skipStrings steps over up to n strings, each with its length before it, as far as b holds them
// whole. It returns their size in b and their number.
//
// Opening a model with a vocabulary spends its time here. The position of each string depends on
// the length of the one before, so a loop waits for memory, not for arithmetic. Four lanes wait
// a quarter as often.
func skipStrings(b []byte, n uint64, w width) (size, count uint64) {
	for count < n {
		var s, k uint64
		if w.bytes == 8 && !w.big && len(b)-int(size) >= block {
			s, k = skipBlock((*[block]byte)(b[size:]))
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

// skipOneByOne does what skipStrings does, without lanes.
func skipOneByOne(b []byte, n uint64, w width) (size, count uint64) {
	end := uint64(len(b))
	for count < n && end-size >= w.bytes {
		s := w.uintAt(b, size)
		if s > end-size-w.bytes {
			break
		}
		size += w.bytes + s
		count++
	}
	return size, count
}

const (
	few  = 1 << 10 // strings to skip one by one before the next attempt at lanes
	lane = 16 << 10
	// longest is more bytes than a string in a lane may have.
	longest = 1 << 10
	// block is the size of four lanes, with room for the last string of the last lane.
	block = 4*lane + 8 + longest
)

// skipBlock walks through b in four lanes. The start of a lane is a guess, which is right if the
// lane before it ends there. Then the lanes did the same as one walk from the start. A count of 0
// means a wrong guess or a long string.
func skipBlock(b *[block]byte) (size, count uint64) {
	end0, end1, end2 := guessStart(b, lane), guessStart(b, 2*lane), guessStart(b, 3*lane)
	const end3 = 4 * lane
	i0, i1, i2, i3 := uint64(0), end0, end1, end2
	for i0 < end0 && i1 < end1 && i2 < end2 && i3 < end3 {
		// Sliced like this, in an array, a load takes a comparison with a constant.
		n0 := le.Uint64(b[i0 : i0+8])
		n1 := le.Uint64(b[i1 : i1+8])
		n2 := le.Uint64(b[i2 : i2+8])
		n3 := le.Uint64(b[i3 : i3+8])
		if n0|n1|n2|n3 >= longest {
			return 0, 0
		}
		i0 += 8 + n0
		i1 += 8 + n1
		i2 += 8 + n2
		i3 += 8 + n3
		count += 4
	}
	i0, count = finish(b, i0, end0, count)
	i1, count = finish(b, i1, end1, count)
	i2, count = finish(b, i2, end2, count)
	i3, count = finish(b, i3, end3, count)
	if i0 != end0 || i1 != end1 || i2 != end2 || i3 < end3 {
		return 0, 0
	}
	return i3, count
}

// finish walks on alone through a lane, from i to its end. A string that is too long keeps
// it from getting there.
func finish(b *[block]byte, i, end, count uint64) (uint64, uint64) {
	for i < end {
		n := le.Uint64(b[i : i+8])
		if n >= longest {
			break
		}
		i += 8 + n
		count++
	}
	return i, count
}

// guessStart returns the first position from at on where a string seems to begin: a byte with
// seven zeros behind it. In text without NULs only the length of a string of 1 to 255 bytes looks
// like that.
func guessStart(b *[block]byte, at uint64) uint64 {
	for i := at; i < at+longest; i++ {
		if le.Uint64(b[i:i+8]) < 256 {
			return i
		}
	}
	return at
}
