package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// numbers generates the encoders that round floats to types of 16 bits.
func numbers() {
	convert("f16", func(k *kit.Kernel) func() {
		const nearestEven = 0 // whatever MXCSR says
		return func() {
			for at := 0; at < 4*k.Elems; at += 4 * lanes() {
				v := loaded(k.From(at))
				if wide() { // a store apart is faster by a quarter
					VCVTPS2PH(Imm(nearestEven), v, v.AsY())
					VMOVUPS(v.AsY(), k.To(at/2))
				} else {
					VCVTPS2PH(Imm(nearestEven), v, k.To(at/2))
				}
			}
		}
	})
	if wide() {
		convert("bf16", brains512)
	} else {
		convert("bf16", brains)
	}
}

// lanes returns the number of floats in a vector.
func lanes() int {
	if wide() {
		return 16
	}
	return 8
}

// convert generates an encoder that takes four vectors of floats at a time.
func convert(name string, body func(k *kit.Kernel) (iteration func())) {
	k := kit.Begin(name, level, kit.Encodes, false)
	k.Elems = 4 * lanes()
	k.In, k.Out = 4*k.Elems, 2*k.Elems
	k.Loop(body(k))
	k.End()
}

// brains rounds to bfloat16. A NaN loses its lower half, so that it is not rounded into another number, and is quieted.
func brains(k *kit.Kernel) func() {
	one, half := loaded(splatted("last_place", 1)), loaded(splatted("below_half", 0x7fff))
	quiet := loaded(splatted("quiet", 0x40))
	// eight are in the lower words.
	eight := func(at int) VecVirtual {
		f, y, odd, nan := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(k.From(4*at), f)
		VPSRLD(Imm(16), f, y)
		VPAND(one, y, odd)
		VPOR(quiet, y, y)
		VCMPPS(Imm(unordered), f, f, nan)
		VPADDD(half, f, f)
		VPADDD(odd, f, f)
		VPSRLD(Imm(16), f, f)
		VBLENDVPS(nan, y, f, f)
		return f
	}
	return func() {
		for i := 0; i < 32; i += 16 {
			low, high := eight(i), eight(i+8)
			VPACKUSDW(high, low, low)
			VPERMQ(Imm(0|2<<2|1<<4|3<<6), low, low) // packing works within lanes
			VMOVDQU(low, k.To(2*i))
		}
	}
}

// Truth table of VPTERNLOG: the destination's bits in the mask that is Go's first operand, with all of the second one.
const maskedOr = 0xf0&0xaa | 0xcc

// brains512 does what brains does. It stores first, and once more if there is a NaN: looking for NaNs first would delay
// the stores, which bound the loop.
func brains512(k *kit.Kernel) func() {
	upper, quiet := splat("upper_half", 0xffff0000), splat("quiet_float", 1<<22)
	store := brainStorer(k)
	return func() {
		var f [4]VecVirtual
		for i := range f {
			f[i] = loaded(k.From(64 * i))
		}
		store(f)
		first, second := compared(unordered, f[0], f[1]), compared(unordered, f[2], f[3])
		KORTESTW(first.k, second.k)
		k.Unless("nan", func() {
			for _, f := range f {
				VPTERNLOGD(U8(maskedOr), upper, quiet, compared(unordered, f, f).k, f)
			}
			store(f)
		})
	}
}

// brainStorer takes two vectors at a time apart into lower and upper halves of their floats. Just under half of a
// bfloat16's last place is added to the lower ones, or half if the result would be odd. The carry to the upper ones is the
// top bit of an average.
func brainStorer(k *kit.Kernel) func(floats [4]VecVirtual) {
	odd, underHalf := splat("odd_words", 0x00010001), splat("under_halves", 0x7ffe7ffe)
	lowers, uppers := loaded(kit.Words("lower_halves", everyOther(0)...)), loaded(kit.Words("upper_halves", everyOther(1)...))
	return func(floats [4]VecVirtual) {
		for i := 0; i < 4; i += 2 {
			low, high, add := copied(lowers), copied(uppers), V()
			VPERMI2W(floats[i+1], floats[i], low)
			VPERMI2W(floats[i+1], floats[i], high)
			VMOVAPS(high, add)
			VPTERNLOGD(U8(maskedOr), odd, underHalf, add)
			VPAVGW(add, low, low)
			VPSRLW(U8(15), low, low)
			VPADDW(low, high, high)
			VMOVUPS(high, k.To(32*i))
		}
	}
}

// everyOther returns indexes of the even or the odd ones of 64 16-bit words.
func everyOther(first uint32) []uint32 {
	return kit.List(16, func(i int) uint32 {
		at := uint32(4*i) + first
		return at | (at+2)<<16
	})
}
