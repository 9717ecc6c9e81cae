package dequant

import (
	"github.com/tensormap/tensormap/layout"
)

// A tile has tileRows rows of tileBytes bytes of codes. It is transposed at a time, and takes half of the first cache.
const (
	tileRows  = 64
	tileBytes = 256
)

// expandTiles expands n columns from left on, of rows from top on, of a matrix whose codes lie by columns. It
// transposes the codes tile by tile. It fails if a column's group does not exist.
func (x *expansion) expandTiles(dst []float32, matrix uint64, top, rows, left, n int) error {
	bits := x.code.Bits()
	codes := x.parts.Codes[matrix*x.matrixBytes()-x.codesFrom:][:x.matrixBytes()]
	if x.Permuted && !x.Bias && x.Pack == layout.PackGPTQ && x.GroupRows == 1 && n == int(x.Cols) && x.ScaleCols <= maxPermuted {
		done := rows &^ 7 // kernels take eight rows at a time, the rest goes the common way
		if err := x.expandPermuted(dst, codes, matrix, top, done); err != nil || done == rows {
			return err
		}
		dst, top, rows = dst[done*n:], top+done, rows-done
	}
	step := 8 * tileBytes / bits &^ 31 // columns of a tile
	for r := top; r < top+rows; {
		base := r
		if x.Pack == layout.PackAWQ {
			base &^= 7 // a word has eight rows
		}
		until := min(base+tileRows, top+rows)
		for c := left &^ 31; c < left+n; c += step {
			end := min(c+step, left+n)
			x.transposeTile(codes, base, until, c, end)
			from := max(c, left)
			bit, s := (from-c)*bits, x.strip(matrix, from)
			for i := r; i < until; i++ {
				turned := x.scratch.codes[(i-base)*tileBytes+bit/8:]
				part := dst[(i-top)*n:][from-left : end-left]
				if err := x.expandRow(part, turned, bit%8, i, s); err != nil {
					return err
				}
			}
		}
		r = until
	}
	return nil
}

// transposeTile writes codes of rows base to until-1 and columns c to end-1 to the scratch memory, row by row. base
// is a multiple of 8 in PackAWQ, and c a multiple of 32.
func (x *expansion) transposeTile(codes []byte, base, until, c, end int) {
	switch x.Pack {
	case layout.PackAWQ:
		x.transposeAWQ(codes, base, until, c, end)
	case layout.PackPlanes:
		x.transposePlanes(codes, base, until, c, end)
	default:
		x.transposeColumns(codes, base, until, c, ((end-c)*x.code.Bits()+31)/32)
	}
}

// transposeColumns writes words of rows base to until-1 to the scratch memory, by rows: the given number for each
// row, from that of column c on. In codes, the words of all rows for the same columns lie side by side.
func (x *expansion) transposeColumns(codes []byte, base, until, c, words int) {
	stride := 4 * int(x.Rows)
	transposeWords(x.scratch.codes[:], tileBytes, codes[c/32*x.code.Bits()*stride+4*base:], stride, words, until-base)
}
