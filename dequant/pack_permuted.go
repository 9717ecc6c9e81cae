package dequant

import (
	"fmt"
)

// maxPermuted is the largest number of groups in a row that expandPermuted takes: 256 KiB of scales and offsets.
const maxPermuted = 512

// expandPermuted expands complete rows of a matrix whose columns have groups in any order, tile by tile. rows is a
// multiple of eight, and top the first row. codes are those of the whole matrix. It fails if a column's group does
// not exist.
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
		x.transposeScales(int(x.strip(matrix, 0).scales)+(top+r)*int(x.ScaleCols), height)
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

// transposeScales transposes scales and offsets of the given number of rows into scratch memory, so that those of
// one group are adjacent. Those of the first row begin at index at. One offset for all is repeated.
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

// rescaleEach scales every value by a scale and an offset of its own, or by a scale of its own and one offset for all.
func (x *expansion) rescaleEach(dst, scales, offsets []float32) {
	n := len(dst) &^ 7
	if x.Bias || len(offsets) == 1 || n == 0 {
		n = 0 // the kernel takes neither biases nor one offset for all
	} else {
		active.each(dst[:n], scales, offsets)
		offsets = offsets[n:]
	}
	rescale(dst[n:], scales[n:], offsets, nil, x.Bias)
}

// errNoGroup returns the error for column col, whose group has no scale.
func (x *expansion) errNoGroup(col int) error {
	return fmt.Errorf("dequant: column %d belongs to group %d of %d: %w", col, x.parts.GroupOf[col], x.ScaleCols, ErrLength)
}
