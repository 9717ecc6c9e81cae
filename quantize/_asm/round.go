package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// round generates what roundGeneric does, sixteen elements at a time.
func round() {
	TEXT("round"+level, attr.NOSPLIT, "func(codes []uint8, x []float32, elems int, scales, offsets *float32, low, high int)")
	Doc("round" + level + " does what roundGeneric does.")
	Pragma("noescape")
	load := func(c string) GPVirtual { return Load(Param(c), GP64()).(GPVirtual) }
	to, from := Load(Param("codes").Base(), GP64()).(GPVirtual), Load(Param("x").Base(), GP64()).(GPVirtual)
	left := Load(Param("x").Len(), GP64()).(GPVirtual)
	elems, scale, offset := load("elems"), load("scales"), load("offsets")
	low, high := param("low", func(GPVirtual) {}), param("high", func(GPVirtual) {})
	none := zero() // a NaN's
	Label("fit")
	s, o := V(), V()
	VBROADCASTSS(Mem{Base: scale}, s)
	VBROADCASTSS(Mem{Base: offset}, o)
	inFit := GP64()
	MOVQ(elems, inFit)
	Label("elements")
	var v [2]VecVirtual
	for i := range v {
		v[i] = loaded(Mem{Base: from, Disp: 32 * i})
		VADDPS(o, v[i], v[i])
		VDIVPS(s, v[i], v[i])
		nan := compared(unordered, v[i], v[i])
		(rounder{low, high}).roundInts(v[i])
		nan.where(none, v[i])
		VPSUBD(low, v[i], v[i])
		if wide() {
			VPMOVDB(v[i], Mem{Base: to})
			break
		}
	}
	if !wide() {
		VPACKSSDW(v[1], v[0], v[0])
		VPERMQ(Imm(0xd8), v[0], v[0])
		x := XMM()
		VEXTRACTI128(Imm(1), v[0], x)
		VPACKUSWB(x, v[0].AsX(), x)
		VMOVDQU(x, Mem{Base: to})
	}
	ADDQ(Imm(64), from)
	ADDQ(Imm(16), to)
	SUBQ(Imm(16), inFit)
	JNZ(LabelRef("elements"))
	ADDQ(Imm(4), scale)
	ADDQ(Imm(4), offset)
	SUBQ(elems, left)
	JNZ(LabelRef("fit"))
	VZEROUPPER()
	RET()
}
