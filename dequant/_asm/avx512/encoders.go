package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
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
		k := begin(n.name, "", "func(dst []byte, src []float32)")
		n.write(k)
		k.end()
	}
}

// toBrain adds just under half a last place, or half if the result would be odd. NaNs are cut.
func toBrain(*kernel) func(src []Op) []reg.VecVirtual {
	one, half, quiet := splat("bit0", 1), splat("underHalf", 0x7fff), splat("quietBrain", 0x40)
	return each(func(src Op, z reg.VecVirtual) {
		f, upper, odd, isNaN := ZMM(), ZMM(), ZMM(), K()
		VMOVUPS(src, f)
		VCMPPS(U8(unordered), f, f, isNaN)
		VPSRLD(U8(16), f, upper)
		VPANDD(one, upper, odd)
		VPADDD(half, f, f)
		VPADDD(odd, f, f)
		VPSRLD(U8(16), f, f)
		VPORD(quiet, upper, isNaN, f)
		VPMOVDW(f, z.AsY())
	})
}
