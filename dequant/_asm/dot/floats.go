package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// plain generates the kernel of numbers of so many bytes. widen loads eight of them as floats.
func plain(name, rows string, size int, widen func(m Mem, y VecVirtual)) {
	TEXT(name+"AVX2", attr.NOSPLIT, fmt.Sprintf("func(dst []float32, rows []%s, x []float32)", rows))
	Doc(fmt.Sprintf("%sAVX2 multiplies rows of len(x) numbers, a positive multiple of 32.", name))
	Pragma("noescape")
	k := &kernel{group: GP64(), left: GP64()}
	k.dst = Load(Param("dst").Base(), GP64()).(GPVirtual)
	k.rows = Load(Param("dst").Len(), GP64()).(GPVirtual)
	k.src = Load(Param("rows").Base(), GP64()).(GPVirtual)
	k.x = Load(Param("x").Base(), GP64()).(GPVirtual)
	k.blocks = Load(Param("x").Len(), GP64()).(GPVirtual)
	k.eachRow(func() {
		acc := [4]VecVirtual{k.acc, YMM(), YMM(), YMM()}
		for _, a := range acc[1:] {
			VXORPS(a, a, a)
		}
		MOVQ(k.blocks, k.left)
		Label("numbers")
		for i, a := range acc {
			y := YMM()
			widen(k.from(8*i*size), y)
			VMULPS(k.act(32*i), y, y)
			VADDPS(y, a, a)
		}
		ADDQ(U32(32*size), k.src)
		ADDQ(U32(128), k.group)
		SUBQ(U32(32), k.left)
		JNZ(LabelRef("numbers"))
		VADDPS(acc[2], acc[0], acc[0])
		VADDPS(acc[3], acc[1], acc[1])
		VADDPS(acc[1], acc[0], acc[0])
	})
}

func floats() {
	load := func(m Mem, y VecVirtual) { VMOVUPS(m, y) }
	plain("floats", "float32", 4, load)
	plain("f32", "byte", 4, load)
	plain("f16", "byte", 2, func(m Mem, y VecVirtual) { VCVTPH2PS(m, y) })
	plain("bf16", "byte", 2, func(m Mem, y VecVirtual) {
		VPMOVZXWD(m, y)
		VPSLLD(Imm(16), y, y)
	})
	plain("i8", "byte", 1, func(m Mem, y VecVirtual) {
		VPMOVSXBD(m, y)
		VCVTDQ2PS(y, y)
	})
}
