package dequant

import (
	"fmt"
)

// maxPermuted is the largest number of groups in a row that expandPermuted takes: 256 KiB of scales and offsets.
const maxPermuted = 512

// expandPermuted fills dst with the values of rows complete rows, from row top on, of a matrix whose columns have groups in any order
// (act-order). rows is a multiple of eight. codes are those of the matrix, by columns. It fails if a column's group does not exist.
func (x *expansion) expandPermuted(dst []float32, codes []byte, matrix uint64, top, rows int) error {
	for i, g := range x.parts.GroupOf {
		if uint(g) >= uint(x.ScaleCols) {
			return x.errNoGroup(i)
		}
	}
	bits, n, words := x.code.Bits(), int(x.Cols), x.scratch.codes[:]
	step := 8 * tileBytes / bits &^ 31
	for r := 0; r < rows; r += tileRows {
		height := min(tileRows, rows-r)
		x.transposeScales(int(x.columnsFrom(matrix, 0).firstScale)+(top+r)*int(x.ScaleCols), height)
		for c := 0; c < n; c += step {
			columns := min(step, n-c)
			for i := range groups(uint64(columns*bits), 32) { // gathers the words of the tile's rows
				at := 4 * (int(c*bits/32+int(i))*int(x.Rows) + top + r)
				copy(words[i*4*tileRows:][:4*height], codes[at:])
			}
			for i := 0; i < height; i += 8 {
				to, scales, offsets := dst[(r+i)*n+c:], x.scratch.scales[i:], x.scratch.offsets[i:]
				whole := columns &^ 31 // which kernels take; the portable loop takes the rest
				if whole > 0 {
					active.permuted[bits](to, n, words[4*i:], whole, x.parts.GroupOf[c:], scales, offsets)
				}
				if whole < columns {
					generic.permuted[bits](to[whole:], n, words[whole*bits/32*4*tileRows+4*i:], columns-whole, x.parts.GroupOf[c+whole:], scales, offsets)
				}
			}
		}
	}
	return nil
}

// transposeScales writes scales and offsets of the given number of rows to x.scratch, so that those of one group are adjacent. In
// Parts.Scales those of the first row begin at index at. One offset for all is repeated.
func (x *expansion) transposeScales(at, rows int) {
	s, n := x.scratch, int(x.ScaleCols)
	if len(s.scales) < tileRows*n {
		s.scales, s.offsets = make([]float32, tileRows*n), make([]float32, tileRows*n)
	}
	transpose(s.scales, tileRows, x.parts.Scales[at:], rows, n)
	if len(x.parts.Offsets) > 1 {
		transpose(s.offsets, tileRows, x.parts.Offsets[at:], rows, n)
		return
	}
	for i := range s.offsets[:tileRows*n] {
		s.offsets[i] = x.parts.Offsets[0]
	}
}

// rescaleEach replaces each value in dst, a code's, by the value scaled: by a scale of its own, and an offset of its own or one for all.
func (x *expansion) rescaleEach(dst, scales, offsets []float32) {
	n := len(dst) &^ 7
	if x.Bias || len(offsets) == 1 || n == 0 {
		n = 0 // the kernel takes neither biases nor one offset for all
	} else {
		active.scaleEach(dst[:n], scales, offsets)
		offsets = offsets[n:]
	}
	rescale(dst[n:], scales[n:], offsets, nil, x.Bias)
}

// errNoGroup returns the error for a tensor in which column col belongs to a group that has no scale.
func (x *expansion) errNoGroup(col int) error {
	return fmt.Errorf("dequant: column %d belongs to group %d of %d: %w", col, x.parts.GroupOf[col], x.ScaleCols, ErrLength)
}
