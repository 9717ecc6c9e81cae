package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
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
	const bFlippedByCWithoutA = tableB ^ tableC&^tableA
	sign := splat("sign", 1<<31)
	toSign := [2]reg.VecVirtual{} // of the lower and the upper half of 32 bits
	for i := range toSign {
		toSign[i] = zmm(fmt.Sprint("signOf", 16*i), func(j int) uint32 { return uint32(31 - 16*i - j) })
	}
	return func() {
		d := half(k.From(0))
		for i := range 4 {
			bits := ZMM()
			VPBROADCASTD(k.From(2+4*i), bits)
			for half, shift := range toSign {
				z := ZMM()
				VPSLLVD(shift, bits, z)
				VPTERNLOGD(U8(bFlippedByCWithoutA), sign, d, z)
				k.Store(z, 32*i+16*half)
			}
		}
	}
}

// threeLevels returns a generator that tabulates d·(n − 1). VPERMILPS only regards the lower two
// bits of an index.
func threeLevels() func(d reg.VecVirtual) reg.VecVirtual {
	values := floats("threeLevels", func(n int) float32 { return float32(n&3 - 1) })
	return func(d reg.VecVirtual) reg.VecVirtual {
		VMULPS(values, d, d)
		return d
	}
}

// q2_0 reads neighbours in one byte.
func q2_0(k *kernel) func() {
	levels := threeLevels()
	pairs := zmm("pairShift", func(i int) uint32 { return uint32(2 * i) })
	return func() {
		table := levels(half(k.From(0)))
		for i := range 4 {
			n := ZMM()
			VPBROADCASTD(k.From(2+4*i), n)
			VPSRLVD(pairs, n, n)
			VPERMILPS(n, table, n)
			k.Store(n, 16*i)
		}
	}
}

// tq2_0 reads four runs of 32 elements in 32 bytes.
func tq2_0(k *kernel) func() {
	levels := threeLevels()
	return func() {
		table := levels(half(k.From(64)))
		for at := 0; at < 64; at += 16 {
			n := bytes(k.From(at))
			for run := range 4 {
				if run > 0 {
					VPSRLD(U8(2), n, n)
				}
				z := ZMM()
				VPERMILPS(n, table, z)
				k.Store(z, at/32*128+at%32+32*run)
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
	levels, three := threeLevels(), splat("three", 3)
	var powers [5]reg.VecVirtual
	for run, power := range kit.TritPowers() {
		powers[run] = splat(fmt.Sprint("tritPower", run), power)
	}
	own := zmm("tritPowers", func(i int) uint32 { return kit.TritPowers()[i/4] })
	return func() {
		table := levels(half(k.From(52)))
		digits := func(codes, power reg.VecVirtual, at int) {
			z := ZMM()
			VPMULLW(power, codes, z)
			VPMULHUW(three, z, z)
			VPERMILPS(z, table, z)
			k.Store(z, at)
		}
		for at := 0; at < 48; at += 16 {
			codes := bytes(k.From(at))
			for run, power := range powers {
				if at < 32 {
					digits(codes, power, at+32*run)
				} else {
					digits(codes, power, 160+16*run)
				}
			}
		}
		last, codes := XMM(), ZMM()
		VPBROADCASTD(k.From(48), last)
		VPMOVZXBD(last, codes)
		digits(codes, own, 240)
	}
}
