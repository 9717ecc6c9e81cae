package dequant

// transposePlanes writes codes of rows base to until-1 and columns c to end-1 to the scratch memory, by rows, from
// bit planes. In these, 32 columns of a row take as many words as a code has bits.
func (x *expansion) transposePlanes(codes []byte, base, until, c, end int) {
	bits, blocks := x.code.Bits(), (end-c+31)/32
	x.transposeColumns(codes, base, until, c, blocks*bits)
	for r := range until - base {
		for at := range blocks {
			joinPlanes(x.scratch.codes[r*tileBytes+4*bits*at:][:4*bits], bits)
		}
	}
}

// joinPlanes replaces 32 codes in planes by the same codes one after the other, the first in the lowest bits. A plane
// has 4, 2 or 1 bits of every code, the lowest bits first.
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
			codes[i] |= src[at/8] >> (at % 8) & (1<<width - 1) << offset
		}
		src, offset = src[4*width:], offset+width
	}
	var word, n uint
	for _, q := range codes {
		if word, n = word|uint(q)<<n, n+uint(bits); n >= 8 {
			b[0] = byte(word)
			b, word, n = b[1:], word>>8, n-8
		}
	}
}
