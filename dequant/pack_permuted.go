package dequant

import (
	"fmt"
)

// maxPermuted is the largest number of groups in a row that expandPermuted takes: 256 KiB of scales and offsets.
const maxPermuted = 512

// expandPermuted fills dst with the values of complete rows of a matrix whose columns have groups in any order (act-order).
// top is the number of the first row within the matrix. rows is the number of rows, a multiple of eight. codes are all codes
// of the matrix, by columns: word 0 of all rows side by side, then word 1, and so on. expandPermuted serves tensors for which
// takesPermuted is true. It fails with ErrLength if GroupOf names a group that does not exist.
func (x *expansion) expandPermuted(dst []float32, codes []byte, matrix uint64, top, rows int) error {
	for i, g := range x.parts.GroupOf {
		if uint(g) >= uint(x.ScaleCols) { // also true if g is negative
			return x.errNoGroup(i)
		}
	}
	const wordStride = 4 * tileRows // words has word 0 of tileRows rows, then word 1 of them: the bytes from a row's word to its next
	bits, n, words := x.kernelCode.Bits(), int(x.Cols), x.scratch.codes[:]
	step := 8 * tileBytes / bits &^ 31 // columns of a tile, whose codes fit tileBytes
	for r := 0; r < rows; r += tileRows {
		height := min(tileRows, rows-r)
		x.transposeScales(int(x.firstScale(matrix))+(top+r)*int(x.ScaleCols), height)
		for c := 0; c < n; c += step {
			columns := min(step, n-c)
			firstWord := c * bits / 32
			for i := range int(groups(uint64(columns*bits), 32)) { // gathers the words of the tile's rows
				copy(words[i*wordStride:][:4*height], codes[4*((firstWord+i)*int(x.Rows)+top+r):])
			}
			for i := 0; i < height; i += 8 {
				to, scales, offsets := dst[(r+i)*n+c:], x.scratch.scales[i:], x.scratch.offsets[i:]
				whole := columns &^ 31 // which kernels take; the portable loop takes the rest
				if whole > 0 {
					active.permuted[bits](to, n, words[4*i:], whole, x.parts.GroupOf[c:], scales, offsets)
				}
				if whole < columns {
					rest := words[whole*bits/32*wordStride+4*i:]
					generic.permuted[bits](to[whole:], n, rest, columns-whole, x.parts.GroupOf[c+whole:], scales, offsets)
				}
			}
		}
	}
	return nil
}

// transposeScales copies scales and offsets of the given number of rows to x.scratch, group by group: the numbers of all rows for
// group 0, then for group 1. The scales of the first row begin at Parts.Scales[first], its offsets at Parts.Offsets[first]. If there is
// only one offset, it is repeated for all. transposeScales grows x.scratch if need be.
func (x *expansion) transposeScales(first, rows int) {
	s, n := x.scratch, int(x.ScaleCols)
	if len(s.scales) < tileRows*n {
		s.scales, s.offsets = make([]float32, tileRows*n), make([]float32, tileRows*n)
	}
	transpose(s.scales, tileRows, x.parts.Scales[first:], rows, n)
	if len(x.parts.Offsets) > 1 {
		transpose(s.offsets, tileRows, x.parts.Offsets[first:], rows, n)
		return
	}
	for i := range s.offsets[:tileRows*n] {
		s.offsets[i] = x.parts.Offsets[0]
	}
}

// rescaleEach scales each dst[i] by scales[i], with offsets[i] as the offset. A single offset serves all of dst. Offsets are biases if
// x.Bias is set, and else zero points.
func (x *expansion) rescaleEach(dst, scales, offsets []float32) {
	n := len(dst) &^ 7
	if x.Bias || len(offsets) == 1 || n == 0 {
		n = 0 // the kernel takes neither biases nor one offset for all
	} else {
		active.scaleEach(dst[:n], scales, offsets)
		offsets = offsets[n:]
	}
	rescale(dst[n:], scales[n:], offsets, nil, x.Bias) // returns -1, which means no error, since each value has a scale
}

// errNoGroup returns the error that column col belongs to a group without a scale. The error wraps ErrLength.
func (x *expansion) errNoGroup(col int) error {
	return fmt.Errorf("dequant: column %d belongs to group %d of %d: %w", col, x.parts.GroupOf[col], x.ScaleCols, ErrLength)
}
