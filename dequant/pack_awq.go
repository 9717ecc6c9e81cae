package dequant

// transposeAWQ writes codes of rows base to until-1 and columns c to end-1 to the scratch memory, by rows, from
// AWQ's words. A word has the nibbles of eight rows of a column. They are separated into eight planes, which are
// then transposed.
func (x *expansion) transposeAWQ(codes []byte, base, until, c, end int) {
	const width = tileRows / 8 * 4      // bytes of a plane's row: a word for every eight rows of the tile
	const plane = tileBytes / 4 * width // bytes of a plane: a row for every eight columns
	stride, words := 4*int(groups(x.Rows, 8)), (until-base+7)/8
	if all := min(stride/4-base/8, tileRows/8); all%8 == 0 { // more rows than asked for, but in a number that kernels take
		words = all
	}
	// Plane k gets the rows k, k+8 and so on of the tile.
	transposeNibbles(x.scratch.planes[:], width, plane, codes[c*stride+base/2:], stride, end-c, words)
	for k := range 8 {
		transposeWords(x.scratch.codes[k*tileBytes:], 8*tileBytes, x.scratch.planes[k*plane:], width, (end-c+7)/8, words)
	}
}
