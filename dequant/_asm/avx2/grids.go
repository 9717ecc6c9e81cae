package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// grids generates the IQ types that store the levels of four or eight elements as an index into a
// codebook. The codebook is one of Go's tables. A combination from there has a nibble for each
// element. Three bits of it are the level: a permutation looks up the values of eight. The upper
// bit may be the element's sign.
//
// A block is prepared as a whole: scales become floats on the stack. Indexes whose bits lie apart
// become words there. Then a loop goes over its eight sub-blocks of 32 elements.
func grids() {
	expand("iq2_XXS", iq2XXS)
	expand("iq2_XS", iq2XS)
	expand("iq2_S", iq2S)
	expand("iq3_XXS", iq3XXS)
	expand("iq3_S", iq3S)
	expand("iq1_S", iq1S)
	expand("iq1_M", iq1M)
}

// A grid keeps levels in a register.
type grid struct {
	kit.Grid
	levels VecVirtual
}

func newGrid(k *kernel, codebook string, levels Mem) *grid {
	return &grid{kit.NewGrid(k.Kernel, codebook), keep(levels)}
}

// levels returns the address of eight floats.
func levels(name string, values [8]float32) Mem {
	return dwords(name, kit.Bits(func(i int) float32 { return values[i] }))
}

func iq2Levels() Mem { return levels("iq2_levels", kit.IQ2) }

// nibbles returns the nibbles of a combination, moved by shift.
func nibbles(combination GPVirtual, shift func(...Op), counts Op) VecVirtual {
	x, y := XMM(), YMM()
	VMOVD(combination.As32(), x)
	VPBROADCASTD(x, y)
	shift(counts, y, y)
	return y
}

// upward and downward move nibble i to the upper or to the lower end of element i.
func upward() Mem   { return dwords("nibble_to_top", func(i int) uint32 { return uint32(28 - 4*i) }) }
func downward() Mem { return dwords("each_nibble", func(i int) uint32 { return uint32(4 * i) }) }

// scaled returns the levels times a scale in memory.
func (g *grid) scaled(scale Mem) VecVirtual {
	table := YMM()
	VBROADCASTSS(scale, table)
	VMULPS(g.levels, table, table)
	return table
}

// A signer flips the signs of eight values where the upper bits of others are set.
type signer struct{ sign VecVirtual }

func newSigner() signer { return signer{keep(dwordsOf("sign", 1<<31))} }

func (s signer) flip(values, signs VecVirtual) {
	VPAND(s.sign, signs, signs)
	VXORPS(signs, values, values)
}

// evenSigns has the signs that are stored with a combination.
type evenSigns struct {
	signer
	kit.EvenSigns
	top VecVirtual
}

func newEvenSigns() evenSigns { return evenSigns{newSigner(), kit.NewEvenSigns(), keep(upward())} }

// values looks up a combination with its signs.
func (s evenSigns) values(combination GPVirtual, table VecVirtual) VecVirtual {
	signs, y := nibbles(combination, VPSLLVD, s.top), YMM()
	VPSRLD(Imm(28), signs, y)
	VPERMPS(table, y, y)
	s.flip(y, signs)
	return y
}

// storedSigns has a bit for each element of a sub-block.
type storedSigns struct {
	signer
	toSign [4]VecVirtual
	shift  VecVirtual
}

func newStoredSigns() storedSigns { return storedSigns{newSigner(), bitsToSigns(), keep(downward())} }

// values looks up the l'th combination of a sub-block with all its signs.
func (s storedSigns) values(combination GPVirtual, table, bits VecVirtual, l int) VecVirtual {
	signs, y := YMM(), nibbles(combination, VPSRLVD, s.shift)
	VPERMPS(table, y, y)
	VPSLLVD(s.toSign[l], bits, signs)
	s.flip(y, signs)
	return y
}

// putHalved sets numbers 8i to 8i+7 to (s + ½)·unit for integers s of four bits. The unit is a
// binary16 times a power of two, and s takes five bits more, so no step rounds.
func (r row) putHalved(i int, s, unit VecVirtual) {
	VCVTDQ2PS(s, s)
	VADDPS(floatsOf("one_half", 0.5), s, s)
	VMULPS(unit, s, s)
	VMOVUPS(s, r.at.Offset(32*i))
}

// putOdd sets numbers 8i to 8i+7 to (2s + 1)·unit for 2s under a mask.
func (r row) putOdd(i int, doubled VecVirtual, mask Mem, unit VecVirtual) {
	VPAND(mask, doubled, doubled)
	VPOR(dwordsOf("integer_one", 1), doubled, doubled)
	r.put(i, doubled, unit)
}

// fraction loads a binary16 times a power of two.
func fraction(m Mem, power float32) VecVirtual {
	d := half(m)
	VMULPS(floatsOf(map[float32]string{0.25: "quarter", 0.5: "one_half"}[power], power), d, d)
	return d
}

// iq2XXS reads four indexes for each sub-block, then four times seven signs below a scale.
func iq2XXS(k *kernel) func() {
	g, signs, scales := newGrid(k, "iq2xxsGrid", iq2Levels()), newEvenSigns(), newRow(8)
	return func() {
		s, upper := YMM(), YMM()
		VMOVDQU(k.From(2), s)
		VMOVDQU(k.From(34), upper)
		VSHUFPS(Imm(1|3<<2|1<<4|3<<6), upper, s, s)
		VPERMQ(Imm(0|2<<2|1<<4|3<<6), s, s)
		VPSRLD(Imm(28), s, s)
		scales.putHalved(0, s, fraction(k.From(0), 0.25))
		g.ForEachSubBlock(func() {
			table := g.scaled(g.Of(scales.at, 4))
			for l := range 4 {
				w := g.Eight(kit.Load8(g.Of(k.From(2+l), 8)))
				signs.PutField(w, g.Of(k.From(6), 8), l)
				k.Store(signs.values(w, table), 8*l)
			}
		})
	}
}

// iq2XS reads indexes of nine bits below seven signs, and a scale for every 16 elements.
func iq2XS(k *kernel) func() {
	g, signs, scales := newGrid(k, "iq2xsGrid", iq2Levels()), newEvenSigns(), newRow(16)
	return func() {
		nibbleScales(k, scales, 66)
		g.ForEachSubBlock(func() {
			var table VecVirtual
			for l := range 4 {
				if l%2 == 0 {
					table = g.scaled(g.Of(scales.at.Offset(2*l), 8))
				}
				w := g.SignedNine(signs.EvenSigns, kit.Load16(g.Of(k.From(2+2*l), 8)))
				k.Store(signs.values(w, table), 8*l)
			}
		})
	}
}

// nibbleScales makes the scales of IQ2_XS and IQ2_S.
func nibbleScales(k *kernel, scales row, at int) {
	d := fraction(k.From(0), 0.25)
	for i := range 2 {
		s := YMM()
		VPBROADCASTD(k.From(at+4*i), s)
		VPSRLVD(downward(), s, s)
		VPAND(dwordsOf("fifteen", 15), s, s)
		scales.putHalved(i, s, d)
	}
}

// iq2S reads the lower bytes of its indexes, signs, the upper two bits of the indexes, and scales
// as in IQ2_XS.
func iq2S(k *kernel) func() {
	g, signs := newGrid(k, "iq2sGrid", iq2Levels()), newStoredSigns()
	scales, indexes := newRow(16), AllocLocal(64)
	return func() {
		nibbleScales(k, scales, 74)
		for i := range 2 {
			low, high := YMM(), YMM()
			VPMOVZXBW(k.From(2+16*i), low)
			VPBROADCASTD(k.From(66+4*i), high)
			VPSHUFB(bytes32("spread_upper_two", func(b int) byte { return byte(b/8 | b&1<<7) }), high, high)
			VPMULLW(words("upper_two_place", func(i int) uint16 { return 256 >> (i % 4 * 2) }), high, high)
			joinUpper(low, high, words("ninth_and_tenth", func(int) uint16 { return 0x0300 }), indexes.Offset(32*i))
		}
		g.ForEachSubBlock(func() {
			bits := YMM()
			VPBROADCASTD(g.Of(k.From(34), 4), bits)
			var table VecVirtual
			for l := range 4 {
				if l%2 == 0 {
					table = g.scaled(g.Of(scales.at.Offset(2*l), 8))
				}
				w := g.Eight(kit.Load16(g.Of(indexes.Offset(2*l), 8)))
				k.Store(signs.values(w, table, bits, l), 8*l)
			}
		})
	}
}

// words returns a vector constant of 16 bits each.
func words(name string, f func(i int) uint16) Mem {
	return bytes32(name, func(b int) byte { return byte(f(b/2) >> (b % 2 * 8)) })
}

// joinUpper saves indexes whose upper bits lie among others.
func joinUpper(low, high VecVirtual, mask, to Mem) {
	VPAND(mask, high, high)
	VPOR(low, high, high)
	VMOVDQU(high, to)
}

// iq3XXS reads all its indexes. Then it reads for each sub-block seven signs four times below a scale,
// as IQ2_XXS has them.
func iq3XXS(k *kernel) func() {
	g := newGrid(k, "iq3xxsGrid", levels("iq3xxs_levels", kit.IQ3XXS))
	signs, scales := newEvenSigns(), newRow(8)
	return func() {
		s := YMM()
		VMOVDQU(k.From(66), s)
		VPSRLD(Imm(28), s, s)
		scales.putHalved(0, s, fraction(k.From(0), 0.5))
		g.ForEachSubBlock(func() {
			table := g.scaled(g.Of(scales.at, 4))
			for l := range 4 {
				w := g.TwoFours(kit.Load8(g.Of(k.From(2+2*l), 8)), kit.Load8(g.Of(k.From(3+2*l), 8)))
				signs.PutField(w, g.Of(k.From(66), 4), l)
				k.Store(signs.values(w, table), 8*l)
			}
		})
	}
}

// iq3S reads the lower bytes of its indexes, their ninth bits, signs, and a nibble for the scale of
// each sub-block.
func iq3S(k *kernel) func() {
	g := newGrid(k, "iq3sGrid", levels("iq3s_levels", kit.IQ3S))
	signs, scales, indexes := newStoredSigns(), newRow(8), AllocLocal(128)
	return func() {
		s := YMM()
		VPBROADCASTD(k.From(106), s)
		VPSRLVD(downward(), s, s)
		VPADDD(s, s, s)
		scales.putOdd(0, s, dwordsOf("low4_doubled", 0x1e), half(k.From(0)))
		for i := range 4 {
			bit := words("each_bit", func(i int) uint16 { return 1 << i })
			low, high := YMM(), YMM()
			VPMOVZXBW(k.From(2+16*i), low)
			VPBROADCASTW(k.From(66+2*i), high)
			VPAND(bit, high, high)
			VPCMPEQW(bit, high, high)
			joinUpper(low, high, words("ninth", func(int) uint16 { return 0x0100 }), indexes.Offset(32*i))
		}
		g.ForEachSubBlock(func() {
			table, bits, double := g.scaled(g.Of(scales.at, 4)), YMM(), GP64()
			VPBROADCASTD(g.Of(k.From(74), 4), bits)
			LEAQ(Mem{Base: g.SubBlock, Index: g.SubBlock, Scale: 1}, double)
			for l := range 4 {
				at := indexes.Offset(4*l).Idx(double, 8)
				k.Store(signs.values(g.TwoFours(kit.Load16(at), kit.Load16(at.Offset(2))), table, bits, l), 8*l)
			}
		})
	}
}

// The levels of IQ1 are -1, 0 and 1, to which delta is added, ⅛ or minus that.

func iq1Levels() Mem { return levels("iq1_levels", [8]float32{-1, 0, 1}) }

// putDeltas sets numbers 8i to 8i+7 to delta with the sign of the upper bits of signs.
func (r row) putDeltas(i int, signs VecVirtual) {
	VPAND(dwordsOf("sign", 1<<31), signs, signs)
	VPOR(floatsOf("eighth", 0.125), signs, signs)
	VMOVUPS(signs, r.at.Offset(32*i))
}

// iq1S reads the lower bytes of its indexes. Then each sub-block has a word: the upper three bits of
// four indexes, a scale of three bits, the sign of delta.
func iq1S(k *kernel) func() {
	g, shift := newGrid(k, "iq1sGrid", iq1Levels()), keep(downward())
	scales, deltas, indexes := newRow(8), newRow(8), AllocLocal(64)
	return func() {
		s, d := YMM(), YMM()
		VPMOVZXWD(k.From(34), s)
		VPSLLD(Imm(16), s, d)
		deltas.putDeltas(0, d)
		VPSRLD(Imm(11), s, s)
		scales.putOdd(0, s, dwordsOf("low3_doubled", 0x0e), half(k.From(0)))
		for i := range 2 {
			low, high, last := YMM(), YMM(), YMM()
			VPMOVZXBW(k.From(2+16*i), low)
			VPBROADCASTQ(k.From(34+8*i), high)
			VPSHUFB(bytes32("spread_words", func(b int) byte { return byte(b/8*2 | b&1) }), high, high)
			VPSRLW(Imm(1), high, last)
			VPMULLW(words("upper_three_place", func(i int) uint16 { return []uint16{256, 32, 4, 0}[i%4] }), high, high)
			VPBLENDW(Imm(0x88), last, high, high)
			joinUpper(low, high, upperThree(), indexes.Offset(32*i))
		}
		g.ForEachSubBlock(func() {
			table, scale := YMM(), YMM()
			VBROADCASTSS(g.Of(deltas.at, 4), table)
			VBROADCASTSS(g.Of(scales.at, 4), scale)
			VADDPS(g.levels, table, table)
			VMULPS(scale, table, table)
			for l := range 4 {
				y := nibbles(g.Eight(kit.Load16(g.Of(indexes.Offset(2*l), 8))), VPSRLVD, shift)
				VPERMPS(table, y, y)
				k.Store(y, 8*l)
			}
		})
	}
}

func upperThree() Mem { return words("ninth_to_eleventh", func(int) uint16 { return 0x0700 }) }

// iq1M reads the lower bytes of its indexes, and for each a nibble: three more bits and the sign of
// delta. Four words follow with four scales of three bits each. Above the scales are four bits of d.
func iq1M(k *kernel) func() {
	g, shift := newGrid(k, "iq1sGrid", iq1Levels()), keep(downward())
	scales, deltas, indexes := newRow(16), newRow(32), AllocLocal(64)
	return func() {
		d := scatteredHalf(k.From(48))
		for i := range 2 {
			s := YMM()
			VPBROADCASTD(k.From(48+4*i), s)
			VPSRLVD(dwords("three_bits", func(i int) uint32 { return uint32(i/4*16 + i%4*3) }), s, s)
			VPADDD(s, s, s)
			scales.putOdd(i, s, dwordsOf("low3_doubled", 0x0e), d)
		}
		for i := range 4 {
			s := YMM()
			VPBROADCASTD(k.From(32+4*i), s)
			VPSLLVD(upward(), s, s)
			deltas.putDeltas(i, s)
		}
		for i := range 2 {
			low, high, odd := YMM(), YMM(), YMM()
			VPMOVZXBW(k.From(16*i), low)
			VPMOVZXBD(k.From(32+8*i), high)
			VPSLLD(Imm(20), high, odd)
			VPSLLD(Imm(8), high, high)
			VPOR(odd, high, high)
			joinUpper(low, high, upperThree(), indexes.Offset(32*i))
		}
		group := GP64()
		g.ForEachSubBlock(func() {
			LEAQ(Mem{Base: g.SubBlock, Index: g.SubBlock, Scale: 1}, group)
			scale := YMM()
			for l := range 4 {
				if l%2 == 0 {
					VBROADCASTSS(g.Of(scales.at.Offset(2*l), 8), scale)
				}
				y, delta := nibbles(g.Eight(kit.Load16(g.Of(indexes.Offset(2*l), 8))), VPSRLVD, shift), YMM()
				VPERMPS(g.levels, y, y)
				VBROADCASTSS(deltas.at.Offset(4*l).Idx(group, 8), delta)
				VADDPS(delta, y, y)
				VMULPS(scale, y, y)
				k.Store(y, 8*l)
			}
		})
	}
}

// scatteredHalf returns the binary16 in the upper nibbles of four words, in all elements.
func scatteredHalf(m Mem) VecVirtual {
	x, y := XMM(), YMM()
	VMOVD(kit.ScatteredHalf(m), x)
	VCVTPH2PS(x, x)
	VBROADCASTSS(x, y)
	return y
}
