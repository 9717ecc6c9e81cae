package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// permutedStride is the number of bytes from one row of values to the next, as in package dequant.
const permutedStride = 4 * (256 + 16)

// permuted generates the function that scales eight rows of codes' values in place. The eight scales and the
// eight offsets of a group lie together, one for each row. Squares of eight columns and four
// rows are turned around on the way.
func permuted() {
	const name = "rescalePermuted" + level
	TEXT(name, attr.NOSPLIT, "func(values []float32, columns int, groups []int32, scales, offsets []float32)")
	Doc(name + " does what rescalePermutedRows does.")
	Pragma("noescape")
	base := func(name string) GPVirtual { return Load(Param(name).Base(), GP64()).(GPVirtual) }
	values, groups, scales, offsets := base("values"), base("groups"), base("scales"), base("offsets")
	columns := Load(Param("columns"), GP64()).(GPVirtual)
	Label("columns")
	for half := range 2 {
		var s, o [4]VecVirtual
		for j := range s {
			s[j], o[j] = YMM(), YMM()
			left, right := groupAt(groups, j), groupAt(groups, j+4)
			for i, from := range []GPVirtual{scales, offsets} {
				y := [2][4]VecVirtual{s, o}[i][j]
				VBROADCASTF128(Mem{Base: from, Index: left, Scale: 1, Disp: 16 * half}, y)
				VINSERTF128(Imm(1), Mem{Base: from, Index: right, Scale: 1, Disp: 16 * half}, y, y)
			}
		}
		s, o = turned(s), turned(o)
		for r := range 4 {
			y, place := YMM(), Mem{Base: values, Disp: (4*half + r) * permutedStride}
			VMOVUPS(place, y)
			VSUBPS(o[r], y, y)
			VMULPS(s[r], y, y)
			VMOVUPS(y, place)
		}
	}
	ADDQ(U8(32), values)
	ADDQ(U8(32), groups)
	SUBQ(U8(8), columns)
	JNE(LabelRef("columns"))
	VZEROUPPER()
	RET()
}

// groupAt returns where the values of the i'th column's group lie: 32 bytes for each.
func groupAt(groups GPVirtual, i int) GPVirtual {
	g := GP64()
	MOVL(Mem{Base: groups, Disp: 4 * i}, g.As32())
	SHLQ(Imm(5), g)
	return g
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
