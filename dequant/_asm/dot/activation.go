package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A quantizer is the function being generated that makes an activation of floats, in blocks of 32.
type quantizer struct {
	group, x, left, block GPVirtual // block is the number of a block in its group
}

func beginQuantizer(name, blocks string) *quantizer {
	TEXT(name+level, attr.NOSPLIT, "func(q *int8, x []float32)")
	Doc(fmt.Sprintf("%s quantizes x, in blocks of %s, to groups whose first code is *q. Scales of what has no codes are not finite.", name+level, blocks))
	Pragma("noescape")
	k := &quantizer{block: GP64()}
	k.group = Load(Param("q"), GP64()).(GPVirtual)
	k.x = Load(Param("x").Base(), GP64()).(GPVirtual)
	k.left = Load(Param("x").Len(), GP64()).(GPVirtual)
	XORQ(k.block, k.block)
	return k
}

func (k *quantizer) value(i int) Mem { return Mem{Base: k.x, Disp: 32 * i} }

// scale returns the place of the block's float or doubleword in the group's table at.
func (k *quantizer) scale(at int) Mem { return Mem{Base: k.group, Index: k.block, Scale: 4, Disp: at} }

// magnitude returns the bits of eight elements without their signs.
func (k *quantizer) magnitude(i int) VecVirtual {
	y := YMM()
	VMOVUPS(k.value(i), y)
	VPAND(dwordsOf("magnitude", 1<<31-1), y, y)
	return y
}

// greatest returns the greatest doubleword of y in the lowest one.
func greatest(y VecVirtual) VecVirtual {
	x, other := XMM(), XMM()
	VEXTRACTI128(Imm(1), y, other)
	VPMAXUD(other, y.AsX(), x)
	VPSHUFD(Imm(0x4e), x, other)
	VPMAXUD(other, x, x)
	VPSHUFD(Imm(0xb1), x, other)
	VPMAXUD(other, x, x)
	return x
}

// codes rounds the block's elements times factor, and stores the codes and their sums. It returns the sum of all as a float.
func (k *quantizer) codes(factor VecVirtual, round func(y VecVirtual)) VecVirtual {
	var v [4]VecVirtual
	for i := range v {
		v[i] = YMM()
		VMULPS(k.value(i), factor, v[i])
		round(v[i])
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	order, sum, x := YMM(), YMM(), XMM()
	VMOVDQU(dwords("unpacked", func(i int) uint32 { return []uint32{0, 4, 1, 5, 2, 6, 3, 7}[i] }), order)
	VPERMD(v[0], order, v[0])
	at, high := GP64(), GP64()
	MOVQ(k.block, at)
	MOVQ(k.block, high)
	ANDQ(Imm(3), at)
	SHLQ(Imm(6), at)
	ANDQ(Imm(4), high)
	SHLQ(Imm(2), high)
	ADDQ(high, at)
	VMOVDQU(v[0].AsX(), Mem{Base: k.group, Index: at, Scale: 1})
	VEXTRACTI128(Imm(1), v[0], Mem{Base: k.group, Index: at, Scale: 1, Disp: 32})
	// The sums of unsigned bytes, 128 too great, are in two quadwords for each half.
	zero := YMM()
	VPXOR(zero, zero, zero)
	VPXOR(bytesOf("sign_bits", 128), v[0], sum)
	VPSADBW(zero, sum, sum)
	half := [2]GPVirtual{GP32(), GP32()}
	for i := range half {
		if i == 0 {
			VPSHUFD(Imm(0x4e), sum.AsX(), x)
			VPADDD(sum.AsX(), x, x)
		} else {
			upper := XMM()
			VEXTRACTI128(Imm(1), sum, upper)
			VPSHUFD(Imm(0x4e), upper, x)
			VPADDD(upper, x, x)
		}
		VMOVD(x, half[i])
		SUBL(U32(16*128), half[i])
		MOVW(half[i].As16(), k.scale(halves).Offset(2*i))
	}
	ADDL(half[1], half[0])
	MOVL(half[0], k.scale(sums))
	f := XMM()
	VXORPS(f, f, f)
	VCVTSI2SSL(half[0], f, f)
	return f
}

// rounds stores x, rounded to binary16, in the group's table at.
func (k *quantizer) rounds(x VecVirtual, at int) {
	h := XMM()
	VCVTPS2PH(Imm(0), x, h)
	VCVTPH2PS(h, h)
	VMOVSS(h, k.scale(at))
}

// next goes on to the next block, and to the next group after eight.
func (k *quantizer) next(label string) {
	ADDQ(U32(128), k.x)
	INCQ(k.block)
	SUBQ(Imm(32), k.left)
	JZ(LabelRef("done"))
	CMPQ(k.block, Imm(8))
	JNE(LabelRef(label))
	XORQ(k.block, k.block)
	ADDQ(U32(groupBytes), k.group)
}

func quantizers() {
	blocksOf32()
	blocksOf256()
}

// blocksOf32 generates the quantizer of Q8_0 and Q8_1.
func blocksOf32() {
	k := beginQuantizer("q8", "32")
	Label("block")
	most := k.magnitude(0)
	for i := 1; i < 4; i++ {
		VPMAXUD(k.magnitude(i), most, most)
	}
	d, inverse, infinite := XMM(), XMM(), XMM()
	VDIVSS(floatsOf("greatest_code", 127), greatest(most), d)
	VMOVSS(floatsOf("one_float", 1), inverse)
	VDIVSS(d, inverse, inverse)
	VCMPSS(Imm(0), floatsOf("infinity", float32(math.Inf(1))), inverse, infinite)
	VANDNPS(inverse, infinite, inverse)
	factor := YMM()
	VBROADCASTSS(inverse, factor)
	sum := k.codes(factor, func(y VecVirtual) { // half away from zero
		half := YMM()
		VPAND(dwordsOf("sign", 1<<31), y, half)
		VPOR(floatsOf("below_half", math.Nextafter32(0.5, 0)), half, half)
		VADDPS(half, y, y)
		VCVTTPS2DQ(y, y)
	})
	k.rounds(d, scales)
	VMULSS(d, sum, sum)
	k.rounds(sum, rounded)
	k.next("block")
	JMP(LabelRef("block"))
	Label("done")
	VZEROUPPER()
	RET()
}

// blocksOf256 generates the quantizer of Q8_K.
func blocksOf256() {
	k := beginQuantizer("q8K", "256")
	Label("group")
	var most [4]VecVirtual
	for i := range 32 {
		if i < 4 {
			most[i] = k.magnitude(i)
		} else {
			VPMAXUD(k.magnitude(i), most[i%4], most[i%4])
		}
	}
	VPMAXUD(most[1], most[0], most[0])
	VPMAXUD(most[3], most[2], most[2])
	VPMAXUD(most[2], most[0], most[0])
	all := YMM()
	VPBROADCASTD(greatest(most[0]), all)
	// The sign is the sign of the first element of this magnitude.
	at, mask := GP64(), GP32()
	MOVQ(k.x, at)
	Label("search")
	y := YMM()
	VMOVUPS(Mem{Base: at}, y)
	VPAND(dwordsOf("magnitude", 1<<31-1), y, y)
	VPCMPEQD(all, y, y)
	VMOVMSKPS(y, mask)
	ADDQ(Imm(32), at)
	TESTL(mask, mask)
	JZ(LabelRef("search"))
	BSFL(mask, mask)
	d, inverse, infinite := XMM(), XMM(), XMM()
	VMOVSS(floatsOf("minus_greatest_code", -127), inverse)
	VDIVSS(Mem{Base: at, Index: mask.As64(), Scale: 4, Disp: -32}, inverse, inverse)
	VANDPS(dwordsOf("magnitude", 1<<31-1), inverse, infinite)
	VCMPSS(Imm(0), floatsOf("infinity", float32(math.Inf(1))), infinite, infinite)
	VANDNPS(inverse, infinite, inverse)
	VMOVSS(floatsOf("one_float", 1), d)
	VDIVSS(inverse, d, d)
	VANDNPS(d, infinite, d)
	factor := YMM()
	VBROADCASTSS(inverse, factor)
	Label("block")
	k.codes(factor, func(y VecVirtual) { VCVTPS2DQ(y, y) })
	VMOVSS(d, k.scale(scales))
	k.next("block")
	JMP(LabelRef("group"))
	Label("done")
	VZEROUPPER()
	RET()
}
