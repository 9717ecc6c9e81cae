package dequant

// transposeAWQ writes the codes of a tile, rows top to bottom-1 and columns left to right-1, to x.scratch.codes row by row.
// codes are the codes of the matrix, and top is a multiple of 8. It goes by eight planes, matrices of words of eight nibbles:
//
//	codes          word of column c, rows 8w to 8w+7
//	plane k        word at row c/8, column w: the nibbles of row 8w+k, columns c to c+7
//	scratch.codes  the same word at row 8w+k, column c/8
func (x *expansion) transposeAWQ(codes []byte, top, bottom, left, right int) {
	const planeStride = tileRows / 8 * 4           // bytes of a plane's row: a word for every eight rows of the tile
	const planeBytes = tileBytes / 4 * planeStride // a row for every eight columns
	stride := 4 * int(groups(x.Rows, 8))           // bytes of the words of one column
	words := (bottom - top + 7) / 8                // words of each column
	// Kernels take multiples of eight words. If the words up to the end of the tile or matrix are such a multiple, all of them are
	// transposed: rows that nobody asked for cost less than portable loops.
	if extended := min(stride/4-top/8, tileRows/8); extended%8 == 0 {
		words = extended
	}
	transposeNibbles(x.scratch.planes[:], planeStride, planeBytes, codes[left*stride+top/2:], stride, right-left, words)
	for k := range 8 {
		transposeWords(x.scratch.codes[k*tileBytes:], 8*tileBytes, x.scratch.planes[k*planeBytes:], planeStride, (right-left+7)/8, words)
	}
}
