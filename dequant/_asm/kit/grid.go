package kit

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A Grid looks combinations of elements up in a codebook, which is one of Go's tables. A
// combination has a nibble for each element. Blocks of 256 elements have eight sub-blocks.
type Grid struct {
	*Kernel
	codebook, SubBlock reg.GPVirtual
}

// NewGrid returns a Grid that advances Dst with every sub-block.
func NewGrid(k *Kernel, codebook string) Grid {
	k.Out = 0
	return Grid{k, variable(codebook), GP64()}
}

// variable returns the address of a variable of package dequant.
func variable(name string) reg.GPVirtual {
	at := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "·" + name}, 0), at)
	return at
}

// ForEachSubBlock generates a loop over the sub-blocks of a block.
func (g *Grid) ForEachSubBlock(body func()) {
	XORL(g.SubBlock.As32(), g.SubBlock.As32())
	Label("part")
	body()
	ADDQ(U32(4*32), g.Dst)
	INCQ(g.SubBlock)
	CMPQ(g.SubBlock, U8(8))
	JNE(LabelRef("part"))
}

// Of returns the sub-block's share of an array at m whose entry for each sub-block takes the given bytes.
func (g *Grid) Of(m Mem, bytes int) Mem { return m.Idx(g.SubBlock, uint8(bytes)) }

// Eight loads the combination of eight elements with an index.
func (g *Grid) Eight(index reg.GPVirtual) reg.GPVirtual {
	MOVL(Mem{Base: g.codebook, Index: index, Scale: 4}, index.As32())
	return index
}

// TwoFours joins the combinations of four elements with two indexes.
func (g *Grid) TwoFours(first, second reg.GPVirtual) reg.GPVirtual {
	for _, index := range []reg.GPVirtual{first, second} {
		MOVWLZX(Mem{Base: g.codebook, Index: index, Scale: 2}, index.As32())
	}
	SHLL(U8(16), second.As32())
	ORL(second.As32(), first.As32())
	return first
}

// Load8 loads a number of 8 bits.
func Load8(m Mem) reg.GPVirtual {
	r := GP64()
	MOVBLZX(m, r.As32())
	return r
}

// Load16 loads a number of 16 bits.
func Load16(m Mem) reg.GPVirtual {
	r := GP64()
	MOVWLZX(m, r.As32())
	return r
}

// SignedNine takes an index of nine bits and seven signs above it, and returns the combination.
func (g *Grid) SignedNine(s EvenSigns, index reg.GPVirtual) reg.GPVirtual {
	seven := GP64()
	MOVL(index.As32(), seven.As32())
	SHRL(U8(9), seven.As32())
	ANDL(U32(511), index.As32())
	g.Eight(index)
	s.put(index, seven)
	return index
}

// EvenSigns are signs of seven bits with an eighth that makes the number of bits set even.
type EvenSigns struct{ table reg.GPVirtual }

// NewEvenSigns loads the address of Go's table.
func NewEvenSigns() EvenSigns { return EvenSigns{variable("evenSigns")} }

// put puts signs into a combination.
func (s EvenSigns) put(combination, seven reg.GPVirtual) {
	ORL(Mem{Base: s.table, Index: seven, Scale: 4}, combination.As32())
}

// PutField puts the l'th seven bits of a doubleword into a combination.
func (s EvenSigns) PutField(combination reg.GPVirtual, m Mem, l int) {
	seven := GP64()
	MOVL(m, seven.As32())
	if l > 0 {
		SHRL(U8(7*l), seven.As32())
	}
	ANDL(U8(127), seven.As32())
	s.put(combination, seven)
}

// ScatteredHalf loads the binary16 in the upper nibbles of four words.
func ScatteredHalf(m Mem) reg.GPVirtual {
	words, h := GP64(), GP32()
	MOVQ(m, words)
	XORL(h, h)
	for i := range 4 {
		nibble := GP64()
		MOVQ(words, nibble)
		SHRQ(U8(12+12*i), nibble)
		ANDL(U32(15<<(4*i)), nibble.As32())
		ORL(nibble.As32(), h)
	}
	return h
}
