package dequant

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/layout"
)

// inSlabs reports whether the rows of a matrix are divided into slabs, as many as a unit has codes. Each unit, a
// byte or for 3 bits a word, has one code of each slab.
func (g Grouped) inSlabs() bool { return g.Pack == layout.PackSlabs || g.Pack == layout.PackLowSlabs }

// slabUnit returns the size in bytes of the unit that has one code of each slab: a word for codes of 3 bits, else a
// byte.
func (g Grouped) slabUnit() uint64 {
	if g.Code == 3 {
		return 4
	}
	return 1
}

// inSlab returns the offset in bytes of the unit that has the code of an element, if codes lie in slabs. row counts
// through all matrices.
func (g Grouped) inSlab(row, col uint64) uint64 {
	return row/g.Rows*g.matrixBytes() + (row%g.Rows%g.slab()*g.Cols+col)*g.slabUnit()
}

// slab returns the number of rows in a slab: the rows of a matrix divided by the codes of a unit, rounded up.
func (g Grouped) slab() uint64 {
	if g.Code == 3 {
		return groups(g.Rows, 10) // codes of 3 bits in a word of 32
	}
	return groups(g.Rows, 8/uint64(g.Code.Bits()))
}

// rowsAtOnce returns how many of rows, from row on, can be expanded as one row: those in one slab whose codes fit
// the scratch memory. It is 1 unless rows have one scale each, or one for all.
func (x *expansion) rowsAtOnce(row, rows int) int {
	if !x.inSlabs() || x.perElement || x.GroupRows > 1 || x.ScaleCols != 1 {
		return 1
	}
	slab := int(x.slab())
	return min(rows, slab-row%slab, len(x.scratch.codes)/int(x.Cols))
}

// unpackSlab fills codes with codes of consecutive rows of one slab, a byte each. The first of them is that of
// column col of row.
func (x *expansion) unpackSlab(codes []byte, row, col uint64) {
	src := x.parts.Codes[x.inSlab(row, col)-x.codesFrom:]
	slab := row % x.Rows / x.slab()
	if x.Code == 3 {
		unpackThreeBits(codes, src[:4*len(codes)], uint(27-3*slab)&31)
		return
	}
	// The first slab has the highest bits of a byte, in PackLowSlabs the lowest.
	shift, mask := uint(8-uint64(x.Code)*(slab+1))&7, uint64(1)<<x.Code-1
	if x.Pack == layout.PackLowSlabs {
		shift = uint(uint64(x.Code)*slab) & 7
	}
	src = src[:len(codes)]
	// Eight bytes are shifted at once: the mask removes the bits that come from the byte beside.
	for each := mask * 0x0101010101010101; len(src) >= 32 && len(codes) >= 32; codes, src = codes[32:], src[32:] {
		binary.LittleEndian.PutUint64(codes, binary.LittleEndian.Uint64(src)>>shift&each)
		binary.LittleEndian.PutUint64(codes[8:], binary.LittleEndian.Uint64(src[8:])>>shift&each)
		binary.LittleEndian.PutUint64(codes[16:], binary.LittleEndian.Uint64(src[16:])>>shift&each)
		binary.LittleEndian.PutUint64(codes[24:], binary.LittleEndian.Uint64(src[24:])>>shift&each)
	}
	for i, b := range src {
		codes[i] = b >> shift & byte(mask)
	}
}

// unpackThreeBits sets each code to the three bits above shift of its word.
func unpackThreeBits(codes, words []byte, shift uint) {
	for ; len(codes) >= 4 && len(words) >= 16; codes, words = codes[4:], words[16:] {
		a := binary.LittleEndian.Uint64(words) >> shift & 0x7_0000_0007
		b := binary.LittleEndian.Uint64(words[8:]) >> shift & 0x7_0000_0007
		a |= b << 16 // the codes of words 0, 2, 1 and 3 are now at bits 0, 16, 32 and 48
		binary.LittleEndian.PutUint32(codes, uint32(a|a>>24))
	}
	for i := range codes {
		codes[i] = byte(binary.LittleEndian.Uint32(words[4*i:])>>shift) & 7
	}
}
