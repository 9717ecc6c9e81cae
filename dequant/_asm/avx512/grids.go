package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// grids generates the IQ types that store the levels of four or eight elements as an index into a
// codebook. The codebook is one of Go's tables. A combination from there has a nibble for each
// element. The nibbles of 16 elements look up their values in a table of scaled levels. The upper
// bit of a nibble is the element's sign.
//
// A block is prepared as a whole: scales become floats in scratch memory. Indexes whose bits lie
// apart become words there. Then a loop goes over its eight sub-blocks of 32 elements.
func grids() {
	expand("iq2_XXS", iq2XXS)
	expand("iq2_XS", iq2XS)
	expand("iq2_S", iq2S)
	expand("iq3_XXS", iq3XXS)
	expand("iq3_S", iq3S)
	expand("iq1_S", iq1S)
	expand("iq1_M", iq1M)
}

// A grid keeps in registers how nibbles are taken apart.
type grid struct {
	kit.Grid
	eights, shift reg.VecVirtual
}

func newGrid(k *kernel, codebook string) *grid {
	return &grid{
		Grid:   kit.NewGrid(k.Kernel, codebook),
		eights: zmm("eights", func(i int) uint32 { return uint32(i / 8) }),
		shift:  zmm("eightNibbles", func(i int) uint32 { return uint32(i % 8 * 4) }),
	}
}

// sixteen returns the nibbles of two combinations of eight, under other bits.
func (g *grid) sixteen(first, second reg.GPVirtual) reg.VecVirtual {
	z := ZMM()
	SHLQ(U8(32), second)
	ORQ(first, second)
	VMOVQ(second, z.AsX())
	VPERMD(z, g.eights, z)
	VPSRLVD(g.shift, z, z)
	return z
}

// put stores the values of nibbles as the i'th sixteen elements of the sub-block.
func (g *grid) put(i int, table, nibbles reg.VecVirtual) {
	VPERMPS(table, nibbles, nibbles)
	g.Store(nibbles, 16*i)
}

// upperBits returns a generator that sets the upper bits of nibbles whose bit is set in memory.
func upperBits() func(nibbles reg.VecVirtual, bits Mem) {
	eight := splat("eight", 8)
	return func(nibbles reg.VecVirtual, bits Mem) {
		mask := K()
		KMOVW(bits, mask)
		VPORD(eight, nibbles, mask, nibbles)
	}
}

// scaled returns levels times a scale in memory.
func scaled(levels reg.VecVirtual, scale Mem) reg.VecVirtual {
	table := ZMM()
	VMULPS_BCST(scale, levels, table)
	return table
}

// signed loads levels and, under their nibbles with the upper bit set, the opposites.
func signed(name string, levels [8]float32) reg.VecVirtual {
	return floats(name, func(n int) float32 { return levels[n%8] * float32(1-n/8*2) })
}

func iq2Levels() reg.VecVirtual { return signed("iq2Levels", kit.IQ2) }

// halvedScales returns a generator that saves (s + ½)·unit·d for integers s of four bits and a
// binary16 d. These products take 16 bits, so no step rounds.
func halvedScales(to Mem, unit float32) func(s, d reg.VecVirtual) {
	half, u := splatFloat("half", 0.5), splatFloat(map[float32]string{0.25: "quarter", 0.5: "half"}[unit], unit)
	return func(s, d reg.VecVirtual) {
		VCVTDQ2PS(s, s)
		VADDPS(half, s, s)
		VMULPS(u, s, s)
		VMULPS(d, s, s)
		VMOVUPS(s, to)
	}
}

// oddScales returns a generator that saves (2s + 1)·d for 2s under a mask.
func oddScales(to Mem, name string, mask uint32) func(doubled, d reg.VecVirtual) {
	keep, one := splat(name, mask), splat("integerOne", 1)
	return func(doubled, d reg.VecVirtual) {
		VPTERNLOGD(U8(aAndCOrB), keep, one, doubled)
		saveScales(to, doubled, d)
	}
}

// iq2XXS reads four indexes for each sub-block, then four times seven signs below a scale.
func iq2XXS(k *kernel) func() {
	g, signs, levels := newGrid(k, "iq2xxsGrid"), kit.NewEvenSigns(), iq2Levels()
	scales := scratch(64)
	save := halvedScales(scales, 0.25)
	return func() {
		s := ZMM()
		VPSRLQ(U8(60), k.From(2), s)
		VPMOVQD(s, s.AsY())
		save(s, half(k.From(0)))
		g.ForEachSubBlock(func() {
			table := scaled(levels, g.Of(scales, 4))
			for i := range 2 {
				var w [2]reg.GPVirtual
				for j := range w {
					l := 2*i + j
					w[j] = g.Eight(kit.Load8(g.Of(k.From(2+l), 8)))
					signs.PutField(w[j], g.Of(k.From(6), 8), l)
				}
				g.put(i, table, g.sixteen(w[0], w[1]))
			}
		})
	}
}

// iq2XS reads indexes of nine bits below seven signs, and a scale for every 16 elements.
func iq2XS(k *kernel) func() {
	g, signs, levels := newGrid(k, "iq2xsGrid"), kit.NewEvenSigns(), iq2Levels()
	scales := scratch(64)
	save := nibbleScales(k, scales)
	return func() {
		save(k.From(66))
		g.ForEachSubBlock(func() {
			for i := range 2 {
				var w [2]reg.GPVirtual
				for j := range w {
					w[j] = g.SignedNine(signs, kit.Load16(g.Of(k.From(2+4*i+2*j), 8)))
				}
				g.put(i, scaled(levels, g.Of(scales.Offset(4*i), 8)), g.sixteen(w[0], w[1]))
			}
		})
	}
}

// nibbleScales returns a generator that saves the scales of IQ2_XS and IQ2_S.
func nibbleScales(k *kernel, to Mem) func(from Mem) {
	unpack, low4, save := newNeighbours(), splat("low4", 0x0f), halvedScales(to, 0.25)
	return func(from Mem) {
		s := unpack.load(from)
		VPANDD(low4, s, s)
		save(s, half(k.From(0)))
	}
}

// iq2S reads the lower bytes of its indexes, signs, the upper two bits of the indexes, and scales
// as in IQ2_XS.
func iq2S(k *kernel) func() {
	g, minus, levels := newGrid(k, "iq2sGrid"), upperBits(), iq2Levels()
	spread := shorts("spreadUpper2", func(i int) uint16 { return uint16(i/4<<8 | 0x80) })
	shift, mask := shorts("upper2Shift", func(i int) uint16 { return uint16(i % 4 * 2) }), splat("upper2", 0x03000300)
	scales := scratch(128)
	indexes := scales.Offset(64)
	save := nibbleScales(k, scales)
	return func() {
		save(k.From(74))
		low, high := ZMM(), ZMM()
		VPMOVZXBW(k.From(2), low)
		VPBROADCASTQ(k.From(66), high)
		VPSHUFB(spread, high, high)
		VPSRLVW(shift, high, high)
		VPTERNLOGD(U8(aAndCOrB), mask, low, high)
		VMOVDQU32(high, indexes)
		g.ForEachSubBlock(func() {
			for i := range 2 {
				at := indexes.Offset(4 * i)
				n := g.sixteen(g.Eight(kit.Load16(g.Of(at, 8))), g.Eight(kit.Load16(g.Of(at.Offset(2), 8))))
				minus(n, g.Of(k.From(34+2*i), 4))
				g.put(i, scaled(levels, g.Of(scales.Offset(4*i), 8)), n)
			}
		})
	}
}

// shorts loads a constant of 32 words of 16 bits.
func shorts(name string, value func(i int) uint16) reg.VecVirtual {
	return zmm(name, func(i int) uint32 { return uint32(value(2*i)) | uint32(value(2*i+1))<<16 })
}

// iq3XXS reads all its indexes. Then it reads for each sub-block seven signs four times below a scale,
// as IQ2_XXS has them.
func iq3XXS(k *kernel) func() {
	g, signs := newGrid(k, "iq3xxsGrid"), kit.NewEvenSigns()
	levels := signed("iq3xxsLevels", kit.IQ3XXS)
	scales := scratch(64)
	save := halvedScales(scales, 0.5)
	return func() {
		s := ZMM()
		VPSRLD(U8(28), k.From(66), s.AsY())
		save(s, half(k.From(0)))
		g.ForEachSubBlock(func() {
			table := scaled(levels, g.Of(scales, 4))
			for i := range 2 {
				var w [2]reg.GPVirtual
				for j := range w {
					l := 2*i + j
					w[j] = g.TwoFours(kit.Load8(g.Of(k.From(2+2*l), 8)), kit.Load8(g.Of(k.From(3+2*l), 8)))
					signs.PutField(w[j], g.Of(k.From(66), 4), l)
				}
				g.put(i, table, g.sixteen(w[0], w[1]))
			}
		})
	}
}

// iq3S reads the lower bytes of its indexes, their ninth bits, signs, and a nibble for the scale of
// each sub-block.
func iq3S(k *kernel) func() {
	g, minus := newGrid(k, "iq3sGrid"), upperBits()
	levels := signed("iq3sLevels", kit.IQ3S)
	ninth := splat("ninthBits", 0x01000100)
	scales := scratch(192)
	indexes := scales.Offset(64)
	save := oddScales(scales, "low4Doubled", 0x1e)
	return func() {
		s := ZMM()
		VPBROADCASTD(k.From(106), s)
		VPSRLVD(g.shift, s, s)
		VPADDD(s, s, s)
		save(s, half(k.From(0)))
		for half := range 2 {
			q, isSet := ZMM(), K()
			VPMOVZXBW(k.From(2+32*half), q)
			KMOVD(k.From(66+4*half), isSet)
			VPADDW(ninth, q, isSet, q)
			VMOVDQU32(q, indexes.Offset(64*half))
		}
		g.ForEachSubBlock(func() {
			table, double := scaled(levels, g.Of(scales, 4)), GP64()
			LEAQ(Mem{Base: g.SubBlock, Index: g.SubBlock, Scale: 1}, double)
			for i := range 2 {
				var w [2]reg.GPVirtual
				for j := range w {
					at := indexes.Offset(8*i+4*j).Idx(double, 8)
					w[j] = g.TwoFours(kit.Load16(at), kit.Load16(at.Offset(2)))
				}
				n := g.sixteen(w[0], w[1])
				minus(n, g.Of(k.From(74+2*i), 4))
				g.put(i, table, n)
			}
		})
	}
}

// iq1S reads the lower bytes of its indexes. Then each sub-block has a word: the upper three bits of
// four indexes, a scale of three bits, the sign of delta. Delta is added to the sub-block's levels.
func iq1S(k *kernel) func() {
	g := newGrid(k, "iq1sGrid")
	levels := floats("iq1Levels", func(n int) float32 { return float32(n%4 - 1) })
	sign, delta := splat("sign", 1<<31), splatFloat("eighth", 0.125)
	spread := shorts("spreadWords", func(i int) uint16 { return uint16(i/4*2 | (i/4*2+1)<<8) })
	shift, mask := shorts("upper3Shift", func(i int) uint16 { return uint16(i % 4 * 3) }), splat("upper3", 0x07000700)
	scales := scratch(192)
	deltas, indexes := scales.Offset(64), scales.Offset(128)
	save := oddScales(scales, "low3Doubled", 0x0e)
	return func() {
		s, d, low, high := ZMM(), ZMM(), ZMM(), ZMM()
		VPMOVZXWD(k.From(34), s.AsY())
		VPSLLD(U8(16), s, d)
		VPTERNLOGD(U8(aAndCOrB), sign, delta, d)
		VMOVUPS(d, deltas)
		VPSRLD(U8(11), s, s)
		save(s, half(k.From(0)))
		VPMOVZXBW(k.From(2), low)
		VBROADCASTI32X4(k.From(34), high)
		VPSHUFB(spread, high, high)
		VPSRLVW(shift, high, high)
		VPSLLW(U8(8), high, high)
		VPTERNLOGD(U8(aAndCOrB), mask, low, high)
		VMOVDQU32(high, indexes)
		g.ForEachSubBlock(func() {
			table := ZMM()
			VADDPS_BCST(g.Of(deltas, 4), levels, table)
			VMULPS_BCST(g.Of(scales, 4), table, table)
			for i := range 2 {
				at := indexes.Offset(4 * i)
				g.put(i, table, g.sixteen(g.Eight(kit.Load16(g.Of(at, 8))), g.Eight(kit.Load16(g.Of(at.Offset(2), 8)))))
			}
		})
	}
}

// iq1M reads the lower bytes of its indexes, and for each a nibble: three more bits and the sign of
// delta. Four words follow with four scales of three bits each. Above the scales are four bits of d.
func iq1M(k *kernel) func() {
	g, minusDelta := newGrid(k, "iq1sGrid"), upperBits()
	levels := floats("iq1DeltaLevels", func(n int) float32 {
		return []float32{-0.875, 0.125, 1.125, 0, 0, 0, 0, 0, -1.125, -0.125, 0.875, 0, 0, 0, 0, 0}[n]
	})
	spread := zmm("spreadFours", func(i int) uint32 { return 0x80800000 | uint32(i/4*2) | uint32(i/4*2+1)<<8 })
	shift := zmm("threeBitShift", func(i int) uint32 { return uint32(i % 4 * 3) })
	mask, fourth := splat("upper3", 0x07000700), splat("upper1", 0x08000800)
	scales := scratch(192)
	deltas, indexes := scales.Offset(64), scales.Offset(128)
	save := oddScales(scales, "low3Doubled", 0x0e)
	return func() {
		s, low, high, next, isSet := ZMM(), ZMM(), ZMM(), ZMM(), K()
		VPBROADCASTQ(k.From(48), s)
		VPSHUFB(spread, s, s)
		VPSRLVD(shift, s, s)
		VPADDD(s, s, s)
		save(s, scatteredHalf(k.From(48)))
		VPMOVZXBW(k.From(0), low)
		VPMOVZXBD(k.From(32), high)
		VPSLLD(U8(20), high, next)
		VPSLLD(U8(8), high, high)
		VPORD(next, high, high)
		VPTESTMW(fourth, high, isSet)
		VPMOVM2B(isSet, next.AsY())
		VMOVDQU(next.AsY(), deltas)
		VPTERNLOGD(U8(aAndCOrB), mask, low, high)
		VMOVDQU32(high, indexes)
		g.ForEachSubBlock(func() {
			for i := range 2 {
				at := indexes.Offset(4 * i)
				n := g.sixteen(g.Eight(kit.Load16(g.Of(at, 8))), g.Eight(kit.Load16(g.Of(at.Offset(2), 8))))
				minusDelta(n, g.Of(deltas.Offset(2*i), 4))
				g.put(i, scaled(levels, g.Of(scales.Offset(4*i), 8)), n)
			}
		})
	}
}

// scatteredHalf loads the binary16 in the upper nibbles of four words into all lanes.
func scatteredHalf(m Mem) reg.VecVirtual {
	y, z := YMM(), ZMM()
	VPBROADCASTW(kit.ScatteredHalf(m), y)
	VCVTPH2PS(y, z)
	return z
}
