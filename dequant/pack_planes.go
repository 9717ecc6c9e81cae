package dequant

// transposePlanes writes the codes of a tile, rows top to bottom-1 and columns left to right-1, to x.scratch.codes row by
// row. codes are the codes of the matrix, in bit planes. 32 columns of a row take as many words as a code has bits. joinPlanes
// says how these words hold the codes.
func (x *expansion) transposePlanes(codes []byte, top, bottom, left, right int) {
	bits, blocks := x.kernelCode.Bits(), (right-left+31)/32
	x.transposeColumns(codes, top, bottom, left, blocks*bits)
	for r := range bottom - top {
		for at := range blocks {
			joinPlanes(x.scratch.codes[r*tileBytes+4*bits*at:][:4*bits], bits)
		}
	}
}

// joinPlanes rewrites b in place. b holds 32 codes of the given number of bits in bit planes. A plane has 4, 2 or 1 bits of
// every code, and the first plane has the lowest bits. joinPlanes writes one code after the other without gaps, the first in
// the lowest bits.
func joinPlanes(b []byte, bits int) {
	var codes [32]byte
	src := b
	for offset := 0; offset < bits; {
		width := min(4, bits-offset)
		if width == 3 { // a plane of 2 bits and one of 1
			width = 2
		}
		for i := range codes {
			at := i * width
			codes[i] |= ((src[at/8] >> (at % 8)) & (1<<width - 1)) << offset
		}
		src, offset = src[4*width:], offset+width
	}
	var word, n uint // bits of codes that are not written yet, and how many
	for _, q := range codes {
		if word, n = word|uint(q)<<n, n+uint(bits); n >= 8 {
			b[0] = byte(word)
			b, word, n = b[1:], word>>8, n-8
		}
	}
}
