package dequant

import (
	"github.com/tensormap/tensormap/layout"
)

// A tile is the part of a matrix whose codes are transposed together: tileRows rows of tileBytes bytes of codes. A tile takes
// half of the processor's first cache.
const (
	tileRows  = 64
	tileBytes = 256
)

// takesPermuted reports whether expandPermuted serves complete rows. For that, columns have groups in any order, each row has
// scales of its own, and there are at most maxPermuted scales in a row.
func (x *expansion) takesPermuted() bool {
	return x.Permuted && !x.Bias && x.Pack == layout.PackGPTQ && x.GroupRows == 1 && x.ScaleCols <= maxPermuted
}

// expandTiles fills dst, row by row, with values of one matrix: n columns of each of the given number of rows. The first row
// has number top within the matrix, and the first column number left. The codes lie by columns, as GPTQ's and AWQ's do.
// expandTiles transposes them tile by tile to rows in scratch memory, and expandRow expands these rows. If takesPermuted is
// true, expandPermuted takes complete rows, eight at a time. expandTiles fails with ErrLength if GroupOf names a group that
// does not exist.
func (x *expansion) expandTiles(dst []float32, matrix uint64, top, rows, left, n int) error {
	bits := x.kernelCode.Bits()
	codes := x.parts.Codes[matrix*x.matrixBytes()-x.codesFrom:][:x.matrixBytes()]
	if isComplete := n == int(x.Cols); isComplete && x.takesPermuted() {
		done := rows &^ 7 // kernels take eight rows at a time; tiles take the rest
		if err := x.expandPermuted(dst, codes, matrix, top, done); err != nil || done == rows {
			return err
		}
		dst, top, rows = dst[done*n:], top+done, rows-done
	}
	step := 8 * tileBytes / bits &^ 31 // columns of a tile: at most tileBytes, in whole blocks of 32
	for firstRow := top; firstRow < top+rows; {
		tileTop := firstRow // a tile may begin above the first row, and left of the first column, that dst wants
		if x.Pack == layout.PackAWQ {
			tileTop &^= 7 // a word has eight rows
		}
		tileBottom := min(tileTop+tileRows, top+rows)
		for tileLeft := left &^ 31; tileLeft < left+n; tileLeft += step {
			tileRight := min(tileLeft+step, left+n)
			x.transposeTile(codes, tileTop, tileBottom, tileLeft, tileRight)
			firstColumn := max(tileLeft, left)
			bit := (firstColumn - tileLeft) * bits
			for row := firstRow; row < tileBottom; row++ {
				transposed := x.scratch.codes[(row-tileTop)*tileBytes+bit/8:]
				dstRow := dst[(row-top)*n:][:n]
				if err := x.expandRow(dstRow[firstColumn-left:tileRight-left], transposed, bit%8, matrix, row, firstColumn); err != nil {
					return err
				}
			}
		}
		firstRow = tileBottom
	}
	return nil
}

// transposeTile writes the codes of a tile, rows top to bottom-1 and columns left to right-1, to x.scratch.codes: tileBytes
// bytes for each row. codes are the codes of the matrix. left is a multiple of 32 and, in PackAWQ, top is a multiple of 8.
func (x *expansion) transposeTile(codes []byte, top, bottom, left, right int) {
	switch x.Pack {
	case layout.PackAWQ:
		x.transposeAWQ(codes, top, bottom, left, right)
	case layout.PackPlanes:
		x.transposePlanes(codes, top, bottom, left, right)
	default:
		x.transposeColumns(codes, top, bottom, left, ((right-left)*x.kernelCode.Bits()+31)/32)
	}
}

// transposeColumns writes words of 32 bits of the rows top to bottom-1 to x.scratch.codes, tileBytes bytes for each row.
// The words of a row have its codes, and 32 columns take as many words as a code has bits. transposeColumns takes the given
// number of words of each row, beginning with the word that has the start of column left. left is a multiple of 32. codes
// has the first word of every row, then the second word of every row, and so on.
func (x *expansion) transposeColumns(codes []byte, top, bottom, left, words int) {
	stride := 4 * int(x.Rows)
	transposeWords(x.scratch.codes[:], tileBytes, codes[left/32*x.kernelCode.Bits()*stride+4*top:], stride, words, bottom-top)
}
