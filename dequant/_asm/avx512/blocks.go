package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// blocks generates the types with blocks of 32 elements, and NVFP4 with blocks of 64.
func blocks() {
	expand("q8_0", int8s(2, half))
	expand("q8_1", int8s(4, half))

	expand("q4_0", func(k *kernel) func() {
		values := floats("fourBit", func(n int) float32 { return float32(n - 8) })
		return codebookBlock(k, 2, func(table reg.VecVirtual) { VMULPS(values, half(k.From(0)), table) })
	})
	expand("iq4_NL", func(k *kernel) func() {
		values := iq4()
		return codebookBlock(k, 2, func(table reg.VecVirtual) { VMULPS(values, half(k.From(0)), table) })
	})
	expand("mxfp4", func(k *kernel) func() {
		values := fp4()
		bias := splat("e8m0Bias", 128)
		return codebookBlock(k, 1, func(table reg.VecVirtual) {
			// Scaling by powers of two needs no table of what e8m0Half returns.
			e := GP32()
			MOVBLZX(k.From(0), e)
			VPBROADCASTD(e, table)
			VPSUBD(bias, table, table)
			VCVTDQ2PS(table, table)
			VSCALEFPS(table, values, table)
		})
	})
	expand("q4_1", func(k *kernel) func() {
		values := floats("count", func(n int) float32 { return float32(n) })
		return codebookBlock(k, 4, func(table reg.VecVirtual) {
			d, m := halves(k.From(0))
			VMOVAPS(values, table)
			VFMADD213PS(m, d, table)
		})
	})
	expand("nvfp4", nvfp4)
	expand("aprQ4", aprQ4)
	expand("q5_0", func(k *kernel) func() { return fiveBitBlock(k, 2, 6, false) })
	expand("q5_1", func(k *kernel) func() { return fiveBitBlock(k, 4, 8, true) })
}

// iq4 loads the codebook of IQ4_NL and IQ4_XS.
func iq4() reg.VecVirtual {
	return floats("iq4", func(n int) float32 { return float32(kit.IQ4[n]) })
}

// fp4 loads the codebook of MXFP4 and NVFP4.
func fp4() reg.VecVirtual {
	return floats("fp4", func(n int) float32 { return float32(kit.FP4[n]) })
}

// int8s returns the body for blocks of a scale and, from byte at on, int8s.
func int8s(at int, scale func(Mem) reg.VecVirtual) body {
	return func(k *kernel) func() {
		return func() {
			d := scale(k.From(0))
			for i := 0; i < k.Elems; i += 16 {
				z := ZMM()
				VPMOVSXBD(k.From(at+i), z)
				VCVTDQ2PS(z, z)
				VMULPS(d, z, z)
				k.Store(z, i)
			}
		}
	}
}

// codebookBlock reads 16 bytes of nibbles at codes. A block has many more
// elements than the 16 values, so computing all values first and looking them up is shortest. The lookup only regards the
// lower four bits of an index.
func codebookBlock(k *kernel, codes int, makeTable func(table reg.VecVirtual)) func() {
	return func() {
		table := ZMM()
		makeTable(table)
		lookUpNibbles(k, k.From(codes), table, table, 0, 16)
	}
}

// lookUpNibbles expands 16 bytes: lower nibbles by the table low as elements from atLow on, upper
// ones by high from atHigh on.
func lookUpNibbles(k *kernel, codes Mem, low, high reg.VecVirtual, atLow, atHigh int) {
	n, z := ZMM(), ZMM()
	VPMOVZXBD(codes, n)
	VPERMPS(low, n, z)
	k.Store(z, atLow)
	VPSRLD(U8(4), n, n)
	VPERMPS(high, n, n)
	k.Store(n, atHigh)
}

// fiveBitBlock reads the fifth bits of 32 elements at high, their nibbles at codes. The codes are
// put together as bytes: all 32 fit half a register.
func fiveBitBlock(k *kernel, high, codes int, hasMin bool) func() {
	low, sixteen, nibbles := YMM(), YMM(), YMM()
	VPBROADCASTD(kit.Words("low4s", 0x0f0f0f0f), low)
	VPBROADCASTD(kit.Words("sixteens", 0x10101010), sixteen)
	VMOVDQU(kit.Words("nibbleShift", 0, 0, 0, 0, 4, 0, 4, 0), nibbles)
	// Without a minimum, codes count from -16 on; as a byte that is a nibble under four bits.
	base := YMM()
	if !hasMin {
		VPBROADCASTD(kit.Words("minus16s", 0xf0f0f0f0), base)
	}
	return func() {
		q, fifth := YMM(), K()
		VBROADCASTI128(k.From(codes), q)
		KMOVD(k.From(high), fifth)
		VPSRLVQ(nibbles, q, q)
		if hasMin {
			VPAND(low, q, q)
		} else {
			VPTERNLOGD(U8(aAndCOrB), low, base, q)
		}
		VPADDB(sixteen, q, fifth, q)
		upper := XMM()
		VEXTRACTI128(U8(1), q, upper)
		var d, m reg.VecVirtual
		if hasMin {
			d, m = halves(k.From(0))
		} else {
			d = half(k.From(0))
		}
		for i, half := range []Op{q.AsX(), upper} {
			z := ZMM()
			VPMOVSXBD(half, z)
			VCVTDQ2PS(z, z)
			if hasMin {
				VFMADD213PS(m, d, z)
			} else {
				VMULPS(d, z, z)
			}
			k.Store(z, 16*i)
		}
	}
}

// nvfp4 reads four scales of a byte, then eight bytes of nibbles for each: eight elements in the
// lower ones, eight in the upper ones.
func nvfp4(k *kernel) func() {
	values, convert, scales := fp4(), byteScales(), scratch(16)
	spread := zmm("spread8", func(i int) uint32 { return 0x80808000 | uint32(i%8) })
	shift := zmm("upper8", func(i int) uint32 { return uint32(i / 8 * 4) })
	return func() {
		VMOVUPS(convert(k.From(0)), scales)
		for i := range 4 {
			n := ZMM()
			VPBROADCASTQ(k.From(4+8*i), n)
			VPSHUFB(spread, n, n)
			VPSRLVD(shift, n, n)
			VPERMPS(values, n, n)
			VMULPS_BCST(scales.Offset(4*i), n, n)
			k.Store(n, 16*i)
		}
	}
}

// byteScales returns a generator that converts four bytes as ue4m3Half does. Exponent and mantissa
// in a binary16's place make 2^-7 of the value.
func byteScales() func(from Mem) reg.VecVirtual {
	zero, fields, unit := XMM(), XMM(), XMM()
	VPBROADCASTD(kit.Words("ue4m3Zero", 0x7f7f7f7f), zero)
	VPBROADCASTD(kit.Words("ue4m3Fields", 0x3f803f80), fields)
	VBROADCASTSS(kit.Words("twoTo7", math.Float32bits(0x1p7)), unit)
	return func(from Mem) reg.VecVirtual {
		d, isZero := XMM(), XMM()
		VPBROADCASTD(from, d)
		VPCMPEQB(zero, d, isZero)
		VPANDN(d, isZero, d)
		VPMOVZXBW(d, d)
		VPSLLW(U8(7), d, d)
		VPAND(fields, d, d)
		VCVTPH2PS(d, d)
		VMULPS(unit, d, d)
		return d
	}
}

// aprQ4 reads neighbours in one byte.
func aprQ4(k *kernel) func() {
	values := floats("fourBit", func(n int) float32 { return float32(n - 8) })
	n := newNeighbours()
	one, upper := YMM(), YMM()
	VPBROADCASTD(kit.Words("halfExponent1", 0x04000400), one)
	VPBROADCASTD(kit.Words("halfExponentUpper", 0x78007800), upper)
	return func() {
		h, exponent, normal, table := YMM(), YMM(), K(), ZMM()
		VPBROADCASTW(k.From(0), h)
		// Of 0 and 31 one more has none of the upper four bits of an exponent.
		VPADDW(one, h, exponent)
		VPTESTMW(upper, exponent, normal)
		VMOVDQU16_Z(h, normal, h)
		VCVTPH2PS(h, table)
		VMULPS(values, table, table)
		for i := range 2 {
			q := n.load(k.From(2 + 8*i))
			VPERMPS(table, q, q)
			k.Store(q, 16*i)
		}
	}
}

// neighbours unpack nibbles in the order in which they lie in memory, the lower one of a byte first.
type neighbours struct{ spread, shift reg.VecVirtual }

func newNeighbours() neighbours {
	return neighbours{
		zmm("spreadTwice", func(i int) uint32 { return 0x80808000 | uint32(i/2) }),
		zmm("upperEach", func(i int) uint32 { return uint32(i % 2 * 4) }),
	}
}

// load unpacks eight bytes. Above lower nibbles it leaves the upper ones.
func (n *neighbours) load(from Mem) reg.VecVirtual {
	z := ZMM()
	VPBROADCASTQ(from, z)
	VPSHUFB(n.spread, z, z)
	VPSRLVD(n.shift, z, z)
	return z
}
