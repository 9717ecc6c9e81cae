package dequant

// transposeAWQ writes the codes of a tile, rows top to bottom-1 and columns left to right-1, to x.scratch.codes row by row. codes are
// those of the matrix. A word of AWQ has the nibbles of eight rows of one column. So the nibbles of each of eight rows are first put
// together, and then transposed.
func (x *expansion) transposeAWQ(codes []byte, top, bottom, left, right int) {
	const width = tileRows / 8 * 4      // bytes of a plane's row: a word for every eight rows of the tile
	const plane = tileBytes / 4 * width // bytes of a plane: a row for every eight columns
	stride, words := 4*int(groups(x.Rows, 8)), (bottom-top+7)/8
	if all := min(stride/4-top/8, tileRows/8); all%8 == 0 { // more rows than asked for, but in a number that kernels take
		words = all
	}
	// Plane k gets the rows k, k+8 and so on of the tile.
	transposeNibbles(x.scratch.planes[:], width, plane, codes[left*stride+top/2:], stride, right-left, words)
	for k := range 8 {
		transposeWords(x.scratch.codes[k*tileBytes:], 8*tileBytes, x.scratch.planes[k*plane:], width, (right-left+7)/8, words)
	}
}
