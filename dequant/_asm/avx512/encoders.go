package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// encoders round floats to types of 16 bits.
func encoders() {
	for _, n := range []number{
		{name: "encodeF16", size: 4, to: 2, begin: simple(func(src Op, z reg.VecVirtual) {
			const nearestEven = 0
			f := ZMM()
			VMOVUPS(src, f)
			VCVTPS2PH(U8(nearestEven), f, z.AsY())
		})},
		{name: "encodeBF16", size: 4, to: 2, begin: toBrain},
	} {
		n.convert(kit.Encodes)
	}
}

// toBrain rounds to bfloat16. A NaN loses its lower half, so that it is not rounded into another
// number, and is quieted.
func toBrain(k *kernel) func(src []Op) []reg.VecVirtual {
	upper, quiet := splat("upperHalf", 0xffff0000), splat("quiet", 1<<22)
	load := each(func(src Op, z reg.VecVirtual) { VMOVUPS(src, z) })
	round := brainRounder()
	return func(src []Op) []reg.VecVirtual {
		floats := load(src)
		k.onNaN(floats, func() []reg.VecVirtual {
			for _, f := range floats {
				VPTERNLOGD(U8(aAndCOrB), upper, quiet, isNaN(f), f)
			}
			return round(floats)
		})
		return round(floats)
	}
}

// brainRounder takes two vectors at a time apart into lower and upper halves of their floats. Just
// under half of a bfloat16's last place is added to the lower ones, or half if the result would be
// odd. The carry to the upper ones is the top bit of an average.
func brainRounder() func(floats []reg.VecVirtual) []reg.VecVirtual {
	odd, underHalf := splat("bit0s", 0x00010001), splat("underHalves", 0x7ffe7ffe)
	lowers, uppers := ZMM(), ZMM()
	VMOVDQU16(kit.Words("lowerHalves", everyOther(0)...), lowers)
	VMOVDQU16(kit.Words("upperHalves", everyOther(1)...), uppers)
	return func(floats []reg.VecVirtual) (out []reg.VecVirtual) {
		for i := 0; i < len(floats); i += 2 {
			first, second := floats[i], floats[min(i+1, len(floats)-1)]
			low, high, add := ZMM(), ZMM(), ZMM()
			VMOVDQA32(lowers, low)
			VPERMI2W(second, first, low)
			VMOVDQA32(uppers, high)
			VPERMI2W(second, first, high)
			VMOVDQA32(high, add)
			VPTERNLOGD(U8(aAndCOrB), odd, underHalf, add)
			VPAVGW(add, low, low)
			VPSRLW(U8(15), low, low)
			VPADDW(low, high, high)
			out = append(out, high)
		}
		return out
	}
}

// everyOther returns indexes of the even or the odd ones of 64 16-bit words.
func everyOther(first uint32) []uint32 {
	v := make([]uint32, 16)
	for i := range v {
		at := uint32(4*i) + first
		v[i] = at | (at+2)<<16
	}
	return v
}
