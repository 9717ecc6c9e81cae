package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

func encoders() {
	convert("encodeF16", kit.Encodes, 4, 2, func(k *kernel) func() {
		return func() {
			for i := 0; i < 32; i += 8 {
				y := YMM()
				VMOVUPS(k.From(4*i), y)
				VCVTPS2PH(Imm(0), y, k.To(2*i)) // 0: to nearest even, whatever MXCSR says
			}
		}
	})
	convert("encodeBF16", kit.Encodes, 4, 2, encodeBF16)
}

func encodeBF16(k *kernel) func() {
	one, half := keep(dwordsOf("last_place", 1)), keep(dwordsOf("below_half", 0x7fff))
	quiet := keep(dwordsOf("quiet", 0x40))
	// brains are eight, in the lower words.
	brains := func(at int) VecVirtual {
		f, y, odd, nan := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(k.From(4*at), f)
		VPSRLD(Imm(16), f, y)
		VPAND(one, y, odd)
		VPOR(quiet, y, y)
		VCMPPS(unordered, f, f, nan)
		VPADDD(half, f, f)
		VPADDD(odd, f, f)
		VPSRLD(Imm(16), f, f)
		VBLENDVPS(nan, y, f, f)
		return f
	}
	return func() {
		for i := 0; i < 32; i += 16 {
			low, high := brains(i), brains(i+8)
			VPACKUSDW(high, low, low)
			VPERMQ(Imm(0|2<<2|1<<4|3<<6), low, low) // packing works within lanes
			VMOVDQU(low, k.To(2*i))
		}
	}
}
