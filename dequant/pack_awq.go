package dequant

// turnAWQ does what turn does for PackAWQ, whose words have nibbles of eight rows: first into planes, then into rows.
func (x *expansion) turnAWQ(codes []byte, base, until, c, end int) {
	const width, plane = tileRows / 8 * 4, tileBytes / 4 * tileRows / 8 * 4
	stride, words := 4*int(groups(x.Rows, 8)), (until-base+7)/8
	if most := min(stride/4-base/8, tileRows/8); most%8 == 0 { // what no one asked for costs less than what no kernel takes
		words = most
	}
	turnNibbles(x.scratch.planes[:], width, plane, codes[c*stride+base/2:], stride, end-c, words)
	for k := range 8 {
		turnWords(x.scratch.codes[k*tileBytes:], 8*tileBytes, x.scratch.planes[k*plane:], width, (end-c+7)/8, words)
	}
}
