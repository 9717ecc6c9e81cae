package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// blocks generates the encoders of blocks of 32. They stop before a block that the portable loop
// has rules of its own for: NaNs, infinities, zeros alone, and scales without a finite reciprocal.
func blocks() {
	block("Q8_0", 34, encodeQ8_0)
	block("Q4_0", 18, func(k *kit.Kernel) { signedBlock(k, 8, 2, false) })
	block("Q5_0", 22, func(k *kit.Kernel) { signedBlock(k, 16, 6, true) })
	block("Q4_1", 20, func(k *kit.Kernel) { unsignedBlock(k, 15, 4, false) })
	block("Q5_1", 24, func(k *kit.Kernel) { unsignedBlock(k, 31, 8, true) })
	block("MXFP4", 17, encodeMXFP4)
}

const stop = "stop"

func block(name string, size int, body func(k *kit.Kernel)) {
	function := "encode" + name + level
	TEXT(function, attr.NOSPLIT, "func(dst []byte, src []float32) (blocks int)")
	Doc(fmt.Sprintf("%s does what encode%sGeneric does, up to the first block that is out of the ordinary.", function, name),
		"It returns the number of blocks made.")
	Pragma("noescape")
	load := func(param string) GPVirtual { return Load(Param(param).Base(), GP64()).(GPVirtual) }
	k := &kit.Kernel{Dst: load("dst"), Src: load("src"), Left: Load(Param("src").Len(), GP64()).(GPVirtual)}
	blocks := GP64()
	XORL(blocks.As32(), blocks.As32())
	Label("loop")
	body(k)
	INCQ(blocks)
	ADDQ(U32(128), k.Src)
	ADDQ(U32(size), k.Dst)
	SUBQ(U32(32), k.Left)
	JNE(LabelRef("loop"))
	Label(stop)
	VZEROUPPER()
	Store(blocks, ReturnIndex(0))
	RET()
}

// The bits of 2⁻¹⁰⁰ and of infinity. Magnitudes from the one to below the other have scales with
// finite reciprocals.
const (
	leastBits    = 27 << 23
	infinityBits = 0x7f800000
)

// stopUnless ends the function unless the bits of the magnitude are ordinary.
func stopUnless(bits GPVirtual) {
	t := GP32()
	MOVL(bits, t)
	SUBL(U32(leastBits), t)
	CMPL(t, U32(infinityBits-leastBits))
	JAE(LabelRef(stop))
}

func loadBlock(k *kit.Kernel) (x [4]VecVirtual) {
	for i := range x {
		x[i] = YMM()
		VMOVUPS(k.From(32*i), x[i])
	}
	return x
}

// reduce folds four vectors to one number in all lanes of the result's lower half.
func reduce(x [4]VecVirtual, fold func(a, b, to VecVirtual), shuffled func(i Op, a, to VecVirtual)) VecVirtual {
	a, b := YMM(), YMM()
	fold(x[0], x[1], a)
	fold(x[2], x[3], b)
	fold(a, b, a)
	low, high := a.AsX(), XMM()
	VEXTRACTI128(Imm(1), a, high)
	foldX := func(from VecVirtual) { fold(from, low.(VecVirtual), low.(VecVirtual)) }
	foldX(high)
	for _, order := range []int{0x4e, 0xb1} {
		shuffled(Imm(uint64(order)), low.(VecVirtual), high)
		foldX(high)
	}
	return low.(VecVirtual)
}

func shuffle(i Op, a, to VecVirtual) { VPSHUFD(i, a, to) }

// magnitudes returns the magnitudes of a block, and the greatest in the lower lanes of a register.
func magnitudes(x [4]VecVirtual) (a [4]VecVirtual, most VecVirtual) {
	mask := splatted("magnitude", 0x7fffffff)
	for i := range x {
		a[i] = YMM()
		VPAND(mask, x[i], a[i])
	}
	return a, reduce(a, func(a, b, to VecVirtual) { VPMAXSD(a, b, to) }, shuffle)
}

// bytesOf returns the address of a vector with v in all bytes.
func bytesOf(name string, v byte) Mem {
	return kit.Data(name, kit.List(32, func(int) byte { return v }))
}

func wordsFloat(name string, f float32) Mem { return kit.Words(name, math.Float32bits(f)) }

// putScale stores d as a half at byte at.
func putScale(k *kit.Kernel, d VecVirtual, at int) {
	h, bits := XMM(), GP32()
	VCVTPS2PH(Imm(0), d, h)
	VMOVD(h, bits)
	MOVW(bits.As16(), k.To(at))
}

// reciprocal returns 1/d in all lanes.
func reciprocal(d VecVirtual) VecVirtual {
	one, y := XMM(), YMM()
	VMOVSS(wordsFloat("scalar_one", 1), one)
	VDIVSS(d, one, one)
	VBROADCASTSS(one, y)
	return y
}

// packed truncates 32 floats to bytes, in order.
func packed(v [4]VecVirtual) VecVirtual {
	for i := range v {
		VCVTTPS2DQ(v[i], v[i])
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	order := YMM()
	VMOVDQU(kit.Words("byte_order", kit.List(8, func(i int) uint32 { return uint32(i/2 + i%2*4) })...), order)
	VPERMD(v[0], order, v[0])
	return v[0]
}

func encodeQ8_0(k *kit.Kernel) {
	x := loadBlock(k)
	_, most := magnitudes(x)
	bits := GP32()
	VMOVD(most, bits)
	stopUnless(bits)
	d := XMM()
	VDIVSS(wordsFloat("scalar_127", 127), most, d)
	putScale(k, d, 0)
	id := reciprocal(d)
	// The greatest number below a half rounds half away from zero: the sum with a half is a tie to even.
	sign, half := loaded(splatted("sign", 1<<31)), loaded(splatted("block_below_half", math.Float32bits(0.5)-1))
	for i := range x {
		h := YMM()
		VMULPS(id, x[i], x[i])
		VANDPS(sign, x[i], h)
		VORPS(half, h, h)
		VADDPS(h, x[i], x[i])
	}
	VMOVDQU(packed(x), k.To(2))
}

// signedBlock encodes x/d + most, where the element of greatest magnitude is -most·d.
func signedBlock(k *kit.Kernel, most, at int, fifth bool) {
	x := loadBlock(k)
	a, greatest := magnitudes(x)
	bits := GP32()
	VMOVD(greatest, bits)
	stopUnless(bits)
	all, places := YMM(), GP32()
	VPBROADCASTD(greatest, all)
	for i := range a {
		m := GP32()
		VPCMPEQD(all, a[i], a[i])
		VMOVMSKPS(a[i], m)
		if i == 0 {
			MOVL(m, places)
		} else {
			SHLL(U8(8*i), m)
			ORL(m, places)
		}
	}
	first, d := GP64(), XMM()
	BSFL(places, first.As32())
	VMOVSS(Mem{Base: k.Src, Index: first, Scale: 4}, d)
	VDIVSS(wordsFloat(fmt.Sprintf("scalar_minus_%d", most), -float32(most)), d, d)
	putScale(k, d, 0)
	id := reciprocal(d)
	up := loaded(splatted(fmt.Sprintf("block_%d_and_half", most), math.Float32bits(float32(most)+0.5)))
	for i := range x {
		VMULPS(id, x[i], x[i])
		VADDPS(up, x[i], x[i])
	}
	codes := packed(x)
	VPMINSB(bytesOf(fmt.Sprintf("block_most_%d", 2*most-1), byte(2*most-1)), codes, codes)
	putCodes(k, codes, at, fifth)
}

// unsignedBlock encodes (x - lowest)/d, with up to most for the highest.
func unsignedBlock(k *kit.Kernel, most, at int, fifth bool) {
	x := loadBlock(k)
	_, greatest := magnitudes(x)
	bits := GP32()
	VMOVD(greatest, bits)
	stopUnless(bits)
	lowest := reduce(x, func(a, b, to VecVirtual) { VMINPS(a, b, to) }, shuffle)
	highest := reduce(x, func(a, b, to VecVirtual) { VMAXPS(a, b, to) }, shuffle)
	for _, v := range []VecVirtual{lowest, highest} { // which of two zeros counts is the portable loop's to say
		b := GP32()
		VMOVD(v, b)
		SHLL(U8(1), b)
		JEQ(LabelRef(stop))
	}
	d, range_ := XMM(), GP32()
	VSUBSS(lowest, highest, d)
	VDIVSS(wordsFloat(fmt.Sprintf("scalar_%d", most), float32(most)), d, d)
	VMOVD(d, range_)
	stopUnless(range_)
	putScale(k, d, 0)
	putScale(k, lowest, 2)
	id, low := reciprocal(d), YMM()
	VBROADCASTSS(lowest, low)
	half := loaded(splatted("block_half", math.Float32bits(0.5)))
	for i := range x {
		VSUBPS(low, x[i], x[i])
		VMULPS(id, x[i], x[i])
		VADDPS(half, x[i], x[i])
	}
	codes := packed(x)
	if fifth {
		VPAND(bytesOf("block_five_bits", 31), codes, codes)
	} else {
		VPMINSB(bytesOf("block_most_15", 15), codes, codes)
	}
	putCodes(k, codes, at, fifth)
}

// encodeMXFP4 encodes x·2^(2-k), where the greatest magnitude is from 2^k to below 2^(k+1). Half-way between two codes
// the smaller counts, so a code depends on the ceiling of the doubled level. It stops where a logarithm may round up.
func encodeMXFP4(k *kit.Kernel) {
	x := loadBlock(k)
	a, most := magnitudes(x)
	bits, t := GP32(), GP32()
	VMOVD(most, bits)
	stopUnless(bits)
	MOVL(bits, t)
	ANDL(U32(0x7fffff), t)
	CMPL(t, U32(0x7ff000))
	JAE(LabelRef(stop))
	SHRL(Imm(23), bits)
	SUBL(Imm(2), bits)
	MOVB(bits.As8(), k.To(0))
	// Levels are doubled, and once more: 2^(4-k) has these bits.
	MOVL(U32(256), t)
	SUBL(bits, t)
	SHLL(Imm(23), t)
	id, sign := YMM(), loaded(splatted("sign", 1<<31))
	VMOVD(t, id.AsX())
	VPBROADCASTD(id.AsX(), id)
	for i := range x {
		VMULPS(id, a[i], a[i])
		VROUNDPS(Imm(0x0a), a[i], a[i])
		VANDPS(sign, x[i], x[i])
		VORPS(x[i], a[i], a[i])
	}
	n, codes, above, signs := packed(a), YMM(), YMM(), YMM()
	VPABSB(n, above)
	VPMINUB(bytesOf("block_15_bytes", 15), above, codes)
	VPSHUFB(codes, loaded(kit.Data("fp4_codes", kit.List(32, func(i int) byte { return []byte{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6}[i%16] }))), codes)
	VPCMPGTB(bytesOf("block_20_bytes", 20), above, above)
	VPSUBB(above, codes, codes)
	VPXOR(above, above, above)
	VPCMPGTB(above, codes, above)
	VPSRLW(Imm(4), n, signs)
	VPAND(bytesOf("block_8_bytes", 8), signs, signs)
	VPAND(above, signs, signs)
	VPOR(signs, codes, codes)
	putCodes(k, codes, 1, false)
}

// putCodes stores the low four bits of 32 codes from byte at on, and the fifth before that.
func putCodes(k *kit.Kernel, codes VecVirtual, at int, fifth bool) {
	if fifth {
		y, bits := YMM(), GP32()
		VPSLLW(Imm(3), codes, y)
		VPMOVMSKB(y, bits)
		MOVL(bits, k.To(at-4))
		VPAND(bytesOf("block_four_bits", 15), codes, codes)
	}
	high := XMM()
	VEXTRACTI128(Imm(1), codes, high)
	VPSLLW(Imm(4), high, high)
	VPOR(codes.AsX(), high, high)
	VMOVDQU(high, k.To(at))
}
