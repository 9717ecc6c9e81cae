package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// grids are the IQ types that store the levels of four or eight elements as an index into a codebook, which is
// one of Go's tables. A combination from there has a nibble for each element. The nibbles of 16 elements look
// up their values in a table of scaled levels; the upper bit of a nibble is the element's sign.
//
// A block is prepared as a whole: scales become floats in scratch memory, and indexes of which some bits lie
// elsewhere become words there. Then a loop goes over its eight parts of 32 elements.
func grids() {
	both("iq2_XXS", iq2XXS)
	both("iq2_XS", iq2XS)
	both("iq2_S", iq2S)
	both("iq3_XXS", iq3XXS)
	both("iq3_S", iq3S)
	both("iq1_S", iq1S)
	both("iq1_M", iq1M)
}

// A grid is what such a kernel keeps in registers.
type grid struct {
	*kernel
	codebook, part reg.GPVirtual
	eights, shift  reg.VecVirtual
}

func newGrid(k *kernel, codebook string) *grid {
	return &grid{
		kernel:   k,
		codebook: variable(codebook),
		part:     GP64(),
		eights:   zmm("eights", func(i int) uint32 { return uint32(i / 8) }),
		shift:    zmm("eightNibbles", func(i int) uint32 { return uint32(i % 8 * 4) }),
	}
}

// variable is the address of a variable of package dequant.
func variable(name string) reg.GPVirtual {
	at := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "·" + name}, 0), at)
	return at
}

// forEachPart loops over blocks of 256 elements and their parts.
func (g *grid) forEachPart(size int, block, part func()) {
	g.left = Load(Param("dst").Len(), GP64()).(reg.GPVirtual)
	SHRQ(U8(8), g.left)
	Label("block")
	block()
	XORL(g.part.As32(), g.part.As32())
	Label("part")
	part()
	ADDQ(U32(128), g.dst)
	INCQ(g.part)
	CMPQ(g.part, U8(8))
	JNE(LabelRef("part"))
	ADDQ(U32(size), g.src)
	DECQ(g.left)
	JNZ(LabelRef("block"))
}

// of is the part's share of an array at m, so many bytes for each part.
func (g *grid) of(m Mem, bytes int) Mem {
	m.Index, m.Scale = g.part, uint8(bytes)
	return m
}

// sixteen are the nibbles of two combinations of eight, under other bits.
func (g *grid) sixteen(first, second reg.GPVirtual) reg.VecVirtual {
	z := ZMM()
	SHLQ(U8(32), second)
	ORQ(first, second)
	VMOVQ(second, z.AsX())
	VPERMD(z, g.eights, z)
	VPSRLVD(g.shift, z, z)
	return z
}

// put stores the values of nibbles as the i'th sixteen elements of the part.
func (g *grid) put(i int, table, nibbles reg.VecVirtual) {
	VPERMPS(table, nibbles, nibbles)
	g.store(64*i, nibbles)
}

// eight loads the combination of eight elements with an index.
func (g *grid) eight(index reg.GPVirtual) reg.GPVirtual {
	MOVL(Mem{Base: g.codebook, Index: index, Scale: 4}, index.As32())
	return index
}

// twoFours joins the combinations of four elements with two indexes.
func (g *grid) twoFours(first, second reg.GPVirtual) reg.GPVirtual {
	for _, index := range []reg.GPVirtual{first, second} {
		MOVWLZX(Mem{Base: g.codebook, Index: index, Scale: 2}, index.As32())
	}
	SHLL(U8(16), second.As32())
	ORL(second.As32(), first.As32())
	return first
}

// load8 and load16 are numbers of so many bits in memory.
func load8(m Mem) reg.GPVirtual {
	r := GP64()
	MOVBLZX(m, r.As32())
	return r
}

func load16(m Mem) reg.GPVirtual {
	r := GP64()
	MOVWLZX(m, r.As32())
	return r
}

// evenSigns are signs of seven bits with an eighth that makes the number of bits set even.
type evenSigns struct{ table reg.GPVirtual }

func newEvenSigns() evenSigns { return evenSigns{variable("evenSigns")} }

// put puts signs into a combination.
func (s evenSigns) put(combination, seven reg.GPVirtual) {
	ORL(Mem{Base: s.table, Index: seven, Scale: 4}, combination.As32())
}

// putField puts the l'th seven bits of a doubleword.
func (s evenSigns) putField(combination reg.GPVirtual, m Mem, l int) {
	seven := GP64()
	MOVL(m, seven.As32())
	if l > 0 {
		SHRL(U8(7*l), seven.As32())
	}
	ANDL(U8(127), seven.As32())
	s.put(combination, seven)
}

// upperBits returns what sets the upper bits of nibbles for which a bit is set in memory.
func upperBits() func(nibbles reg.VecVirtual, bits Mem) {
	eight := splat("eight", 8)
	return func(nibbles reg.VecVirtual, bits Mem) {
		mask := K()
		KMOVW(bits, mask)
		VPORD(eight, nibbles, mask, nibbles)
	}
}

// scaled are levels times a scale in memory.
func scaled(levels reg.VecVirtual, scale Mem) reg.VecVirtual {
	table := ZMM()
	VMULPS_BCST(scale, levels, table)
	return table
}

// signed loads levels and, under their nibbles with the upper bit set, the opposites.
func signed(name string, levels [8]float32) reg.VecVirtual {
	return floats(name, func(n int) float32 { return levels[n%8] * float32(1-n/8*2) })
}

func iq2Levels() reg.VecVirtual { return signed("iq2Levels", [8]float32{8, 25, 43}) }

// halvedScales returns what saves (s + ½)·unit·d for integers s of four bits and a binary16 d. That takes 16 bits, so
// no step rounds.
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

// oddScales returns what saves (2s + 1)·d for 2s under a mask.
func oddScales(to Mem, name string, mask uint32) func(doubled, d reg.VecVirtual) {
	keep, one := splat(name, mask), splat("integerOne", 1)
	return func(doubled, d reg.VecVirtual) {
		VPTERNLOGD(U8(aAndCOrB), keep, one, doubled)
		saveScales(to, doubled, d)
	}
}

// iq2XXS has four indexes for each part, then four times seven signs below a scale.
func iq2XXS(k *kernel) {
	g, signs, levels := newGrid(k, "iq2xxsGrid"), newEvenSigns(), iq2Levels()
	scales := scratch(64)
	save := halvedScales(scales, 0.25)
	g.forEachPart(66, func() {
		s := ZMM()
		VPSRLQ(U8(60), k.from(2), s)
		VPMOVQD(s, s.AsY())
		save(s, k.half(0))
	}, func() {
		table := scaled(levels, g.of(scales, 4))
		for i := range 2 {
			var w [2]reg.GPVirtual
			for j := range w {
				l := 2*i + j
				w[j] = g.eight(load8(g.of(k.from(2+l), 8)))
				signs.putField(w[j], g.of(k.from(6), 8), l)
			}
			g.put(i, table, g.sixteen(w[0], w[1]))
		}
	})
}

// iq2XS has seven signs above indexes of nine bits, and a scale for every 16 elements.
func iq2XS(k *kernel) {
	g, signs, levels := newGrid(k, "iq2xsGrid"), newEvenSigns(), iq2Levels()
	scales := scratch(64)
	save := nibbleScales(k, scales)
	g.forEachPart(74, func() {
		save(k.from(66))
	}, func() {
		for i := range 2 {
			var w [2]reg.GPVirtual
			for j := range w {
				seven := GP64()
				w[j] = load16(g.of(k.from(2+4*i+2*j), 8))
				MOVL(w[j].As32(), seven.As32())
				SHRL(U8(9), seven.As32())
				ANDL(U32(511), w[j].As32())
				g.eight(w[j])
				signs.put(w[j], seven)
			}
			g.put(i, scaled(levels, g.of(scales.Offset(4*i), 8)), g.sixteen(w[0], w[1]))
		}
	})
}

// nibbleScales returns what saves the scales of IQ2_XS and IQ2_S.
func nibbleScales(k *kernel, to Mem) func(from Mem) {
	unpack, low4, save := newNeighbours(), splat("low4", 0x0f), halvedScales(to, 0.25)
	return func(from Mem) {
		s := unpack.load(from)
		VPANDD(low4, s, s)
		save(s, k.half(0))
	}
}

// iq2S has the lower bytes of its indexes, signs, the upper two bits of the indexes, and scales as IQ2_XS.
func iq2S(k *kernel) {
	g, minus, levels := newGrid(k, "iq2sGrid"), upperBits(), iq2Levels()
	spread := shorts("spreadUpper2", func(i int) uint16 { return uint16(i/4<<8 | 0x80) })
	shift, mask := shorts("upper2Shift", func(i int) uint16 { return uint16(i % 4 * 2) }), splat("upper2", 0x03000300)
	scales := scratch(128)
	indexes := scales.Offset(64)
	save := nibbleScales(k, scales)
	g.forEachPart(82, func() {
		save(k.from(74))
		low, high := ZMM(), ZMM()
		VPMOVZXBW(k.from(2), low)
		VPBROADCASTQ(k.from(66), high)
		VPSHUFB(spread, high, high)
		VPSRLVW(shift, high, high)
		VPTERNLOGD(U8(aAndCOrB), mask, low, high)
		VMOVDQU32(high, indexes)
	}, func() {
		for i := range 2 {
			at := indexes.Offset(4 * i)
			n := g.sixteen(g.eight(load16(g.of(at, 8))), g.eight(load16(g.of(at.Offset(2), 8))))
			minus(n, g.of(k.from(34+2*i), 4))
			g.put(i, scaled(levels, g.of(scales.Offset(4*i), 8)), n)
		}
	})
}

// shorts loads a constant of 32 words of 16 bits.
func shorts(name string, value func(i int) uint16) reg.VecVirtual {
	return zmm(name, func(i int) uint32 { return uint32(value(2*i)) | uint32(value(2*i+1))<<16 })
}

// iq3XXS has all its indexes, then for each part what IQ2_XXS has behind its four.
func iq3XXS(k *kernel) {
	g, signs := newGrid(k, "iq3xxsGrid"), newEvenSigns()
	levels := signed("iq3xxsLevels", [8]float32{4, 12, 20, 28, 36, 44, 52, 62})
	scales := scratch(64)
	save := halvedScales(scales, 0.5)
	g.forEachPart(98, func() {
		s := ZMM()
		VPSRLD(U8(28), k.from(66), s.AsY())
		save(s, k.half(0))
	}, func() {
		table := scaled(levels, g.of(scales, 4))
		for i := range 2 {
			var w [2]reg.GPVirtual
			for j := range w {
				l := 2*i + j
				w[j] = g.twoFours(load8(g.of(k.from(2+2*l), 8)), load8(g.of(k.from(3+2*l), 8)))
				signs.putField(w[j], g.of(k.from(66), 4), l)
			}
			g.put(i, table, g.sixteen(w[0], w[1]))
		}
	})
}

// iq3S has the lower bytes of its indexes, their ninth bits, signs, and a nibble for the scale of each part.
func iq3S(k *kernel) {
	g, minus := newGrid(k, "iq3sGrid"), upperBits()
	levels := signed("iq3sLevels", [8]float32{1, 3, 5, 7, 9, 11, 13, 15})
	ninth := splat("ninthBits", 0x01000100)
	scales := scratch(192)
	indexes := scales.Offset(64)
	save := oddScales(scales, "low4Doubled", 0x1e)
	g.forEachPart(110, func() {
		s := ZMM()
		VPBROADCASTD(k.from(106), s)
		VPSRLVD(g.shift, s, s)
		VPADDD(s, s, s)
		save(s, k.half(0))
		for half := range 2 {
			q, isSet := ZMM(), K()
			VPMOVZXBW(k.from(2+32*half), q)
			KMOVD(k.from(66+4*half), isSet)
			VPADDW(ninth, q, isSet, q)
			VMOVDQU32(q, indexes.Offset(64*half))
		}
	}, func() {
		table, double := scaled(levels, g.of(scales, 4)), GP64()
		LEAQ(Mem{Base: g.part, Index: g.part, Scale: 1}, double)
		for i := range 2 {
			var w [2]reg.GPVirtual
			for j := range w {
				at := indexes.Offset(8*i+4*j).Idx(double, 8)
				w[j] = g.twoFours(load16(at), load16(at.Offset(2)))
			}
			n := g.sixteen(w[0], w[1])
			minus(n, g.of(k.from(74+2*i), 4))
			g.put(i, table, n)
		}
	})
}

// iq1S has the lower bytes of its indexes, then for each part a word: upper three bits of four indexes, a scale of
// three bits, the sign of delta. Delta is added to the part's levels.
func iq1S(k *kernel) {
	g := newGrid(k, "iq1sGrid")
	levels := floats("iq1Levels", func(n int) float32 { return float32(n%4 - 1) })
	sign, delta := splat("sign", 1<<31), splatFloat("eighth", 0.125)
	spread := shorts("spreadWords", func(i int) uint16 { return uint16(i/4*2 | (i/4*2+1)<<8) })
	shift, mask := shorts("upper3Shift", func(i int) uint16 { return uint16(i % 4 * 3) }), splat("upper3", 0x07000700)
	scales := scratch(192)
	deltas, indexes := scales.Offset(64), scales.Offset(128)
	save := oddScales(scales, "low3Doubled", 0x0e)
	g.forEachPart(50, func() {
		s, d, low, high := ZMM(), ZMM(), ZMM(), ZMM()
		VPMOVZXWD(k.from(34), s.AsY())
		VPSLLD(U8(16), s, d)
		VPTERNLOGD(U8(aAndCOrB), sign, delta, d)
		VMOVUPS(d, deltas)
		VPSRLD(U8(11), s, s)
		save(s, k.half(0))
		VPMOVZXBW(k.from(2), low)
		VBROADCASTI32X4(k.from(34), high)
		VPSHUFB(spread, high, high)
		VPSRLVW(shift, high, high)
		VPSLLW(U8(8), high, high)
		VPTERNLOGD(U8(aAndCOrB), mask, low, high)
		VMOVDQU32(high, indexes)
	}, func() {
		table := ZMM()
		VADDPS_BCST(g.of(deltas, 4), levels, table)
		VMULPS_BCST(g.of(scales, 4), table, table)
		for i := range 2 {
			at := indexes.Offset(4 * i)
			g.put(i, table, g.sixteen(g.eight(load16(g.of(at, 8))), g.eight(load16(g.of(at.Offset(2), 8)))))
		}
	})
}

// iq1M has the lower bytes of its indexes, for each a nibble of three more bits and the sign of delta, and four words
// of four scales of three bits. Above these are four bits of d.
func iq1M(k *kernel) {
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
	g.forEachPart(56, func() {
		s, low, high, next, isSet := ZMM(), ZMM(), ZMM(), ZMM(), K()
		VPBROADCASTQ(k.from(48), s)
		VPSHUFB(spread, s, s)
		VPSRLVD(shift, s, s)
		VPADDD(s, s, s)
		save(s, k.scatteredHalf(48))
		VPMOVZXBW(k.from(0), low)
		VPMOVZXBD(k.from(32), high)
		VPSLLD(U8(20), high, next)
		VPSLLD(U8(8), high, high)
		VPORD(next, high, high)
		VPTESTMW(fourth, high, isSet)
		VPMOVM2B(isSet, next.AsY())
		VMOVDQU(next.AsY(), deltas)
		VPTERNLOGD(U8(aAndCOrB), mask, low, high)
		VMOVDQU32(high, indexes)
	}, func() {
		for i := range 2 {
			at := indexes.Offset(4 * i)
			n := g.sixteen(g.eight(load16(g.of(at, 8))), g.eight(load16(g.of(at.Offset(2), 8))))
			minusDelta(n, g.of(deltas.Offset(2*i), 4))
			g.put(i, scaled(levels, g.of(scales.Offset(4*i), 8)), n)
		}
	})
}

// scatteredHalf is the binary16 in the upper nibbles of four words.
func (k *kernel) scatteredHalf(offset int) reg.VecVirtual {
	words, h := GP64(), GP32()
	MOVQ(k.from(offset), words)
	XORL(h, h)
	for i := range 4 {
		nibble := GP64()
		MOVQ(words, nibble)
		SHRQ(U8(12+12*i), nibble)
		ANDL(U32(15<<(4*i)), nibble.As32())
		ORL(nibble.As32(), h)
	}
	y, z := YMM(), ZMM()
	VPBROADCASTW(h, y)
	VCVTPH2PS(y, z)
	return z
}
