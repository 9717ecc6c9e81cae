package dequant

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/layout"
)

// codesLieInSlabs reports whether codes lie in slabs, as HQQ and BitNet store them. The rows of a matrix are divided into equal
// slabs: the first rows, the next, and so on. A unit is a byte, or a word of 32 bits for codes of 3 bits. It has one code of
// each slab.
func (g Grouped) codesLieInSlabs() bool {
	return g.Pack == layout.PackSlabs || g.Pack == layout.PackLowSlabs
}

// slabUnit returns the bytes of a unit, which has one code of each slab: 4 for codes of 3 bits, else 1.
func (g Grouped) slabUnit() uint64 {
	if g.Code == 3 {
		return 4
	}
	return 1
}

// slabOffset returns the offset, in the tensor's codes, of the byte or word that has the code of the element at row and col.
// Codes must lie in slabs. The units of a slab's elements lie row by row. Rows are counted through all matrices.
func (g Grouped) slabOffset(row, col uint64) uint64 {
	return row/g.Rows*g.matrixBytes() + (row%g.Rows%g.slabRows()*g.Cols+col)*g.slabUnit()
}

// slabRows returns the number of rows in a slab: the rows of a matrix divided by the number of codes in a unit, rounded up. A
// byte has 8/bits codes, and a word has ten codes of 3 bits.
func (g Grouped) slabRows() uint64 {
	if g.Code == 3 {
		return groups(g.Rows, 10) // codes of 3 bits in a word of 32
	}
	return groups(g.Rows, 8/uint64(g.Code.Bits()))
}

// rowsAtOnce returns how many rows, beginning with number row of a matrix, can be expanded as if they were one row. It returns at most
// rows. The rows must be in one slab (see slabRows), and their codes must fit the scratch memory. rowsAtOnce returns 0 if the memory does
// not hold one row. It returns 1 if codes do not lie in slabs. It also returns 1 unless each row has one scale, or all rows share one
// scale. Cols is not 0.
func (x *expansion) rowsAtOnce(row, rows int) int {
	hasRowScales := !x.scalesEachColumn && (x.GroupRows == 1 || x.GroupRows >= x.Rows) && x.ScaleCols == 1
	if !x.codesLieInSlabs() || !hasRowScales {
		return 1
	}
	slab := int(x.slabRows())
	return min(rows, slab-row%slab, len(x.scratch.codes)/int(x.Cols))
}

// unpackSlabRow fills codes with one code a byte, from column col of a row on. row is counted through all matrices. The rows of a matrix
// are divided into equal slabs: the first rows, the next, and so on. A byte, or a word of 32 bits for codes of 3 bits, has one code of
// each slab. All codes of a slab are at the same bits of their byte or word. Codes beyond the row's end are codes of the rows that follow,
// which must be in the same slab.
func (x *expansion) unpackSlabRow(codes []byte, row, col uint64) {
	src := x.parts.Codes[x.slabOffset(row, col)-x.codesFrom:]
	slab := row % x.Rows / x.slabRows()
	if x.Code == 3 { // the first slab has bits 27 to 29 of a word, the tenth the lowest
		unpackThreeBits(codes, src[:4*len(codes)], uint(27-3*slab)&31) // &31 only tells the compiler that the shift is short
		return
	}
	// The first slab has the highest bits of a byte, in PackLowSlabs the lowest. &7 only tells the compiler that the shift is short.
	shift, mask := uint(8-uint64(x.Code)*(slab+1))&7, uint64(1)<<x.Code-1
	if x.Pack == layout.PackLowSlabs {
		shift = uint(uint64(x.Code)*slab) & 7
	}
	src = src[:len(codes)]
	// Eight bytes are shifted at once: the mask removes the bits that come from the next byte.
	for masks := mask * 0x0101010101010101; len(src) >= 32 && len(codes) >= 32; codes, src = codes[32:], src[32:] {
		binary.LittleEndian.PutUint64(codes, (binary.LittleEndian.Uint64(src)>>shift)&masks)
		binary.LittleEndian.PutUint64(codes[8:], (binary.LittleEndian.Uint64(src[8:])>>shift)&masks)
		binary.LittleEndian.PutUint64(codes[16:], (binary.LittleEndian.Uint64(src[16:])>>shift)&masks)
		binary.LittleEndian.PutUint64(codes[24:], (binary.LittleEndian.Uint64(src[24:])>>shift)&masks)
	}
	for i, b := range src {
		codes[i] = (b >> shift) & byte(mask)
	}
}

// unpackThreeBits sets codes[i] to three bits of the i-th word of 32 bits in words: bits shift, shift+1 and shift+2. words
// has a word for each code.
func unpackThreeBits(codes, words []byte, shift uint) {
	for ; len(codes) >= 4 && len(words) >= 16; codes, words = codes[4:], words[16:] {
		a := (binary.LittleEndian.Uint64(words) >> shift) & 0x7_0000_0007
		b := (binary.LittleEndian.Uint64(words[8:]) >> shift) & 0x7_0000_0007
		a |= b << 16 // the codes of words 0, 2, 1 and 3 are now at bits 0, 16, 32 and 48
		binary.LittleEndian.PutUint32(codes, uint32(a|(a>>24)))
	}
	for i := range codes {
		codes[i] = byte(binary.LittleEndian.Uint32(words[4*i:])>>shift) & 7
	}
}
