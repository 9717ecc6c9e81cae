package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// lowBits generates the types of one and two bits an element, and of three levels.
func lowBits() {
	expand("q1_0", q1_0)
	expand("q2_0", q2_0)
	expand("tq1_0", tq1_0)
	expand("tq2_0", tq2_0)
}

// q1_0 reads a bit for each element, which is its sign: minus if it is clear.
func q1_0(k *kernel) func() {
	sign, toSign := keep(dwordsOf("sign", 1<<31)), bitsToSigns()
	return func() {
		plus, minus := half(k.From(0)), YMM()
		VXORPS(sign, plus, minus)
		for i := range 4 {
			bits := YMM()
			VPBROADCASTD(k.From(2+4*i), bits)
			for j, shift := range toSign {
				y := YMM()
				VPSLLVD(shift, bits, y)
				VBLENDVPS(y, plus, minus, y)
				k.Store(y, 32*i+8*j)
			}
		}
	}
}

// bitsToSigns returns counts by which each eight of 32 bits are shifted left to become signs.
func bitsToSigns() (counts [4]VecVirtual) {
	for i := range counts {
		counts[i] = keep(dwords(fmt.Sprint("sign_of_", 8*i), func(j int) uint32 { return uint32(31 - 8*i - j) }))
	}
	return counts
}

// threeLevels returns a generator that tabulates d·(n − 1). VPERMILPS only regards the lower two
// bits of an index.
func threeLevels() func(d VecVirtual) VecVirtual {
	levels := keep(dwords("three_levels", func(n int) uint32 { return []uint32{0xbf800000, 0, 0x3f800000, 0x40000000}[n%4] }))
	return func(d VecVirtual) VecVirtual {
		VMULPS(levels, d, d)
		return d
	}
}

// q2_0 reads neighbours in one byte.
func q2_0(k *kernel) func() {
	levels := threeLevels()
	var pairs [2]VecVirtual
	for i := range pairs {
		pairs[i] = keep(dwords(fmt.Sprint("pair_shifts_", 8*i), func(j int) uint32 { return uint32(16*i + 2*j) }))
	}
	return func() {
		table := levels(half(k.From(0)))
		for i := range 4 {
			codes := YMM()
			VPBROADCASTD(k.From(2+4*i), codes)
			for j, shift := range pairs {
				y := YMM()
				VPSRLVD(shift, codes, y)
				VPERMILPS(y, table, y)
				k.Store(y, 16*i+8*j)
			}
		}
	}
}

// tq2_0 reads four runs of 32 elements in 32 bytes.
func tq2_0(k *kernel) func() {
	levels := threeLevels()
	return func() {
		table := levels(half(k.From(64)))
		for at := 0; at < 64; at += 8 {
			codes := YMM()
			VPMOVZXBD(k.From(at), codes)
			for run := range 4 {
				if run > 0 {
					VPSRLD(Imm(2), codes, codes)
				}
				y := YMM()
				VPERMILPS(codes, table, y)
				k.Store(y, at/32*128+at%32+32*run)
			}
		}
	}
}

// tq1_0 reads bytes with five runs of elements in them: 32 bytes, and then 16. The last four bytes
// have four runs of four elements.
//
// The bytes are fractions of 256 in base three. The product of a byte and a power of three has the
// digits that precede the wanted one above its lowest byte. Moved into the upper byte of a word it
// loses them. The upper half of a product with three is then the digit.
func tq1_0(k *kernel) func() {
	levels, three := threeLevels(), keep(dwordsOf("three_words", 3))
	var powers [5]VecVirtual
	for run, power := range kit.TritPowers() {
		powers[run] = keep(dwordsOf(fmt.Sprint("trit_power_", run), power))
	}
	return func() {
		table := levels(half(k.From(52)))
		digits := func(codes VecVirtual, power Op, at int) {
			y := YMM()
			VPMULLW(power, codes, y)
			VPMULHUW(three, y, y)
			VPERMILPS(y, table, y)
			k.Store(y, at)
		}
		for at := 0; at < 48; at += 8 {
			codes := YMM()
			VPMOVZXBD(k.From(at), codes)
			for run, power := range powers {
				if at < 32 {
					digits(codes, power, at+32*run)
				} else {
					digits(codes, power, 160+at-32+16*run)
				}
			}
		}
		last, codes := XMM(), YMM()
		VPBROADCASTD(k.From(48), last)
		VPMOVZXBD(last, codes)
		for i := range 2 {
			own := dwords(fmt.Sprint("trit_powers_", 2*i), func(j int) uint32 { return kit.TritPowers()[2*i+j/4] })
			digits(codes, own, 240+8*i)
		}
	}
}
