package dequant

// transposeAWQ does what transposeTile does for PackAWQ. Its words have the nibbles of eight rows, which are separated
// into planes before the planes are transposed.
func (x *expansion) transposeAWQ(codes []byte, base, until, c, end int) {
	const width, plane = tileRows / 8 * 4, tileBytes / 4 * tileRows / 8 * 4
	stride, words := 4*int(groups(x.Rows, 8)), (until-base+7)/8
	if all := min(stride/4-base/8, tileRows/8); all%8 == 0 { // more rows than asked for, but in a number that kernels take
		words = all
	}
	transposeNibbles(x.scratch.planes[:], width, plane, codes[c*stride+base/2:], stride, end-c, words)
	for k := range 8 {
		transposeWords(x.scratch.codes[k*tileBytes:], 8*tileBytes, x.scratch.planes[k*plane:], width, (end-c+7)/8, words)
	}
}
