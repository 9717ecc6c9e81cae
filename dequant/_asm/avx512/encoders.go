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

// toBrain adds just under half of a bfloat16's last place, or half if the result would be odd, and
// takes the upper halves of two vectors at once.
func toBrain(k *kernel) func(src []Op) []reg.VecVirtual {
	place, half, one := splat("brainPlace", 1<<16), splat("underHalf", 0x7fff), splat("bit0", 1)
	quiet := splat("quiet", 1<<22)
	uppers := ZMM()
	VMOVDQU16(words("upperHalves", upperHalves()...), uppers)
	return func(src []Op) []reg.VecVirtual {
		rounded := each(func(src Op, z reg.VecVirtual) {
			f, odd := ZMM(), K()
			VMOVUPS(src, f)
			VPTESTMD(place, f, odd)
			VPADDD(half, f, z)
			VPADDD(one, z, odd, z)
		})(src)
		k.onNaN(src, func(i int, isNaN reg.OpmaskVirtual) {
			VPORD(src[i], quiet, isNaN, rounded[i])
		})
		var out []reg.VecVirtual
		for i := 0; i < len(rounded); i += 2 {
			VPERMT2W(rounded[min(i+1, len(rounded)-1)], uppers, rounded[i])
			out = append(out, rounded[i])
		}
		return out
	}
}

// upperHalves chooses the odd ones of 64 16-bit words.
func upperHalves() []uint32 {
	v := make([]uint32, 16)
	for i := range v {
		v[i] = uint32(4*i + 1 | (4*i+3)<<16)
	}
	return v
}
