package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// plain generates the kernel of numbers of size bytes. widen loads eight of them as floats.
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
	plain("f8e5m2", "byte", 1, func(m Mem, y VecVirtual) { // the upper byte of a binary16
		VPMOVZXBW(m, y.AsX())
		VPSLLW(Imm(8), y.AsX(), y.AsX())
		VCVTPH2PS(y.AsX(), y)
	})
	plain("f8e4m3", "byte", 1, func(m Mem, y VecVirtual) { // a binary16 but for the exponent's bias, and NaNs
		magnitude, nan := XMM(), XMM()
		VPMOVSXBW(m, y.AsX())
		VPAND(wordsOf("e4m3_magnitude", 0x7f), y.AsX(), magnitude)
		VPCMPEQW(wordsOf("e4m3_magnitude", 0x7f), magnitude, nan)
		VPSLLW(Imm(7), magnitude, magnitude)
		VPAND(wordsOf("half_sign", 0x8000), y.AsX(), y.AsX())
		VPOR(magnitude, y.AsX(), y.AsX())
		VPAND(wordsOf("half_nan", 0x7fff), nan, nan)
		VPOR(nan, y.AsX(), y.AsX())
		VCVTPH2PS(y.AsX(), y)
		VMULPS(floatsOf("e4m3_bias", 256), y, y)
	})
	plain("i8", "byte", 1, func(m Mem, y VecVirtual) {
		VPMOVSXBD(m, y)
		VCVTDQ2PS(y, y)
	})
}

// plain512 generates the kernel of numbers of size bytes for AVX-512: four rows at a time, then one by one. Sums of
// several rows do not wait for each other. widen loads sixteen as floats.
func plain512(name, rows string, size int, widen func(m Mem, z VecVirtual)) {
	TEXT(name+level, attr.NOSPLIT, fmt.Sprintf("func(dst []float32, rows []%s, x []float32)", rows))
	Doc(fmt.Sprintf("%s multiplies rows of len(x) numbers, a positive multiple of 32.", name+level))
	Pragma("noescape")
	dst, count := Load(Param("dst").Base(), GP64()).(GPVirtual), Load(Param("dst").Len(), GP64()).(GPVirtual)
	src, x := Load(Param("rows").Base(), GP64()).(GPVirtual), Load(Param("x").Base(), GP64()).(GPVirtual)
	n := Load(Param("x").Len(), GP64()).(GPVirtual)
	stride := GP64()
	IMUL3Q(Imm(uint64(size)), n, stride)
	for _, together := range []int{4, 1} {
		loop, next := fmt.Sprintf("rows_%d", together), fmt.Sprintf("after_%d", together)
		Label(loop)
		CMPQ(count, Imm(uint64(together)))
		JL(LabelRef(next))
		var sums [4][2]VecVirtual
		for r := range together {
			for h := range 2 {
				sums[r][h] = ZMM()
				VPXORD(sums[r][h], sums[r][h], sums[r][h])
			}
		}
		at, left, third := GP64(), GP64(), GP64()
		MOVQ(x, at)
		MOVQ(n, left)
		if together > 1 {
			LEAQ(Mem{Base: src, Index: stride, Scale: 2}, third)
		}
		Label(fmt.Sprintf("numbers_%d", together))
		for h := range 2 {
			y := ZMM()
			VMOVUPS(Mem{Base: at, Disp: 64 * h}, y)
			for r := range together {
				m := []Mem{{Base: src}, {Base: src, Index: stride, Scale: 1}, {Base: third}, {Base: third, Index: stride, Scale: 1}}[r]
				m.Disp = 16 * size * h
				z := ZMM()
				widen(m, z)
				VMULPS(y, z, z)
				VADDPS(z, sums[r][h], sums[r][h])
			}
		}
		ADDQ(U32(32*size), src)
		if together > 1 {
			ADDQ(U32(32*size), third)
		}
		ADDQ(U32(128), at)
		SUBQ(Imm(32), left)
		JNZ(LabelRef(fmt.Sprintf("numbers_%d", together)))
		if together > 1 {
			LEAQ(Mem{Base: third, Index: stride, Scale: 1}, src)
		}
		for r := range together {
			sum, half := sums[r][0], YMM()
			VADDPS(sums[r][1], sum, sum)
			VEXTRACTF64X4(Imm(1), sum, half)
			VADDPS(half, sum.AsY(), half)
			total := XMM()
			VEXTRACTF128(Imm(1), half, total)
			VADDPS(total, half.AsX(), total)
			other := XMM()
			VMOVHLPS(total, total, other)
			VADDPS(other, total, total)
			VMOVSHDUP(total, other)
			VADDSS(other, total, total)
			VMOVSS(total, Mem{Base: dst, Disp: 4 * r})
		}
		ADDQ(Imm(uint64(4*together)), dst)
		SUBQ(Imm(uint64(together)), count)
		JMP(LabelRef(loop))
		Label(next)
	}
	VZEROUPPER()
	RET()
}

func wideFloats() {
	load := func(m Mem, z VecVirtual) { VMOVUPS(m, z) }
	plain512("floats", "float32", 4, load)
	plain512("f32", "byte", 4, load)
	plain512("f16", "byte", 2, func(m Mem, z VecVirtual) { VCVTPH2PS(m, z) })
	plain512("bf16", "byte", 2, func(m Mem, z VecVirtual) {
		VPMOVZXWD(m, z)
		VPSLLD(Imm(16), z, z)
	})
	plain512("i8", "byte", 1, func(m Mem, z VecVirtual) {
		VPMOVSXBD(m, z)
		VCVTDQ2PS(z, z)
	})
}
