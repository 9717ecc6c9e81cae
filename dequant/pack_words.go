package dequant

import (
	"encoding/binary"
)

// perWord returns the number of whole codes in a word of PackWords.
func (g Grouped) perWord() uint64 { return uint64(32 / g.Code.Bits()) }

// joinWords copies n codes of a row, from column col on, to codes without gaps: it leaves out the bits at the end of each
// stored word that no code uses. codes has the bytes of n codes, the last filled up with zeros. Rows are counted through all
// matrices.
func (x *expansion) joinWords(codes []byte, row, col uint64, n int) {
	at, bit := x.codeAt(row*x.Cols + col)
	words, bitsLeft := x.parts.Codes[at-x.codesFrom:], n*x.kernelCode.Bits()
	usedBits := int(x.perWord()) * x.kernelCode.Bits() // of each word
	var joined uint64                                  // its lowest joinedBits bits are not written yet
	for joinedBits := 0; bitsLeft > 0 && len(words) >= 4; words, bit = words[4:], 0 {
		taken := min(bitsLeft, usedBits-bit)
		word := uint64(binary.LittleEndian.Uint32(words)>>(bit&31)) & (1<<(taken&63) - 1)
		joined |= word << (joinedBits & 63)
		joinedBits, bitsLeft = joinedBits+taken, bitsLeft-taken
		if joinedBits >= 32 && len(codes) >= 4 {
			binary.LittleEndian.PutUint32(codes, uint32(joined))
			codes, joined, joinedBits = codes[4:], joined>>32, joinedBits-32
		}
	}
	for i := range codes { // at most four bytes are left
		codes[i], joined = byte(joined), joined>>8
	}
}
