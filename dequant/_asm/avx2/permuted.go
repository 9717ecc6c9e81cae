package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tileRows is the number of rows in a tile of words, and in its scales, as in package dequant.
const tileRows = 64

// permuted generates functions that expand eight rows of words, whose columns have groups of their own.
// Vectors hold one column of all rows until they are scaled: the eight scales of a group lie together. Then
// squares of four columns are turned around.
func permuted() {
	rescaleEach()
	for _, bits := range []int{2, 3, 4, 8} {
		permutedBits(bits)
	}
}

// rescaleEach generates the function that takes a scale and an offset for each value.
func rescaleEach() {
	const name = "rescaleEach" + level
	TEXT(name, attr.NOSPLIT, "func(dst, scales, offsets []float32)")
	Doc(name + " does what rescale does without groups and bias.")
	Pragma("noescape")
	base := func(name string) GPVirtual { return Load(Param(name).Base(), GP64()).(GPVirtual) }
	dst, scales, offsets, left := base("dst"), base("scales"), base("offsets"), Load(Param("dst").Len(), GP64())
	Label("loop")
	y := YMM()
	VMOVUPS(Mem{Base: dst}, y)
	VSUBPS(Mem{Base: offsets}, y, y)
	VMULPS(Mem{Base: scales}, y, y)
	VMOVUPS(y, Mem{Base: dst})
	for _, p := range []GPVirtual{dst, scales, offsets} {
		ADDQ(U8(32), p)
	}
	SUBQ(U8(8), left)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func permutedBits(bits int) {
	name := fmt.Sprintf("permuted%d%s", bits, level)
	TEXT(name, attr.NOSPLIT, "func(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)")
	Doc(name + " does what permutedRows does.")
	Pragma("noescape")
	base := func(name string) GPVirtual { return Load(Param(name).Base(), GP64()).(GPVirtual) }
	dst, words, groups, scales, offsets := base("dst"), base("words"), base("groups"), base("scales"), base("offsets")
	columns, stride, stride3 := Load(Param("columns"), GP64()).(GPVirtual), Load(Param("stride"), GP64()).(GPVirtual), GP64()
	SHLQ(U8(2), stride)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	mask := keep(dwordsOf(fmt.Sprint("low_bits_", bits), 1<<bits-1))

	Label("columns")
	below := GP64()
	LEAQ(Mem{Base: dst, Index: stride, Scale: 4}, below)
	for first := 0; first < 32; first += 8 {
		var half [2][4]VecVirtual
		for h := range half {
			var y [4]VecVirtual
			for i := range y {
				c := first + 4*h + i
				y[i] = YMM()
				column(y[i], words, c*bits, bits)
				if (c+1)*bits%32 != 0 { // else there is nothing above
					VPAND(mask, y[i], y[i])
				}
				VCVTDQ2PS(y[i], y[i])
				at := GP64()
				MOVL(Mem{Base: groups, Disp: 4 * c}, at.As32())
				SHLQ(U8(8), at) // 4·tileRows
				VSUBPS(Mem{Base: offsets, Index: at, Scale: 1}, y[i], y[i])
				VMULPS(Mem{Base: scales, Index: at, Scale: 1}, y[i], y[i])
			}
			half[h] = turned(y)
		}
		for r := range 4 {
			upper, lower := YMM(), YMM()
			VINSERTF128(Imm(1), half[1][r].AsX(), half[0][r], upper)
			VPERM2F128(Imm(0x31), half[1][r], half[0][r], lower)
			VMOVUPS(upper, at(dst, stride, stride3, r).Offset(4*first))
			VMOVUPS(lower, at(below, stride, stride3, r).Offset(4*first))
		}
	}
	ADDQ(U32(4*32), dst)
	ADDQ(U32(4*32), groups)
	ADDQ(U32(uint32(bits)*4*tileRows), words)
	SUBQ(U8(32), columns)
	JNE(LabelRef("columns"))
	VZEROUPPER()
	RET()
}

// column loads the code at a bit of eight rows' words, with other bits above it.
func column(y VecVirtual, words GPVirtual, bit, bits int) {
	word := func(i int) Mem { return Mem{Base: words, Disp: 4 * tileRows * i} }
	i, shift := bit/32, bit%32
	VMOVDQU(word(i), y)
	if shift > 0 {
		VPSRLD(Imm(uint64(shift)), y, y)
	}
	if shift+bits > 32 {
		upper := YMM()
		VMOVDQU(word(i+1), upper)
		VPSLLD(Imm(uint64(32-shift)), upper, upper)
		VPOR(upper, y, y)
	}
}

// turned turns a square of four doublewords around in each lane.
func turned(r [4]VecVirtual) (t [4]VecVirtual) {
	var pair [4]VecVirtual
	for i := range pair {
		pair[i], t[i] = YMM(), YMM()
	}
	VPUNPCKLDQ(r[1], r[0], pair[0])
	VPUNPCKHDQ(r[1], r[0], pair[1])
	VPUNPCKLDQ(r[3], r[2], pair[2])
	VPUNPCKHDQ(r[3], r[2], pair[3])
	for c := range t {
		if c%2 == 0 {
			VPUNPCKLQDQ(pair[2+c/2], pair[c/2], t[c])
		} else {
			VPUNPCKHQDQ(pair[2+c/2], pair[c/2], t[c])
		}
	}
	return t
}
