package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lowBits are the types of one and two bits an element, and of three levels.
func lowBits() {
	both("q1_0", q1_0)
	both("q2_0", q2_0)
	both("tq1_0", tq1_0)
	both("tq2_0", tq2_0)
}

// q1_0 has a bit for each element, which is its sign: minus where it is clear.
func q1_0(k *kernel) {
	const bFlippedByCWithoutA = tableB ^ tableC&^tableA
	sign := splat("sign", 1<<31)
	toSign := [2]reg.VecVirtual{} // of the lower and the upper half of 32 bits
	for i := range toSign {
		toSign[i] = zmm(fmt.Sprint("signOf", 16*i), func(j int) uint32 { return uint32(31 - 16*i - j) })
	}
	k.forEachBlock(128, 18, func() {
		d := k.half(0)
		for i := range 4 {
			bits := ZMM()
			VPBROADCASTD(k.from(2+4*i), bits)
			for half, shift := range toSign {
				z := ZMM()
				VPSLLVD(shift, bits, z)
				VPTERNLOGD(U8(bFlippedByCWithoutA), sign, d, z)
				k.store(128*i+64*half, z)
			}
		}
	})
}

// threeLevels tabulates d·(n − 1). VPERMILPS only regards the lower two bits of an index.
func threeLevels() func(d reg.VecVirtual) reg.VecVirtual {
	values := floats("threeLevels", func(n int) float32 { return float32(n&3 - 1) })
	return func(d reg.VecVirtual) reg.VecVirtual {
		VMULPS(values, d, d)
		return d
	}
}

// q2_0 has neighbours in one byte.
func q2_0(k *kernel) {
	levels := threeLevels()
	pairs := zmm("pairShift", func(i int) uint32 { return uint32(2 * i) })
	k.forEachBlock(64, 18, func() {
		table := levels(k.half(0))
		for i := range 4 {
			n := ZMM()
			VPBROADCASTD(k.from(2+4*i), n)
			VPSRLVD(pairs, n, n)
			VPERMILPS(n, table, n)
			k.store(64*i, n)
		}
	})
}

// tq2_0 has four runs of 32 elements in 32 bytes.
func tq2_0(k *kernel) {
	levels := threeLevels()
	k.forEachBlock(256, 66, func() {
		table := levels(k.half(64))
		for part := range 4 { // of 16 bytes
			n := k.bytes(16 * part)
			for run := range 4 {
				if run > 0 {
					VPSRLD(U8(2), n, n)
				}
				z := ZMM()
				VPERMILPS(n, table, z)
				k.store(part/2*512+part%2*64+128*run, z)
			}
		}
	})
}

// tq1_0 has five runs of elements in its bytes, of 32 and then of 16 elements, and in its last four
// bytes four runs of four.
//
// Its bytes are fractions of 256 in base three. The product of a byte and a power of three has the digits that
// precede the wanted one above its lowest byte. Moved into the upper byte of a word it loses them, and the
// upper half of a product with three is the digit.
func tq1_0(k *kernel) {
	levels, three := threeLevels(), splat("three", 3)
	var powers [5]reg.VecVirtual
	for run, power := 0, uint32(1); run < len(powers); run, power = run+1, power*3 {
		powers[run] = splat(fmt.Sprint("tritPower", run), power<<8)
	}
	own := zmm("tritPowers", func(i int) uint32 { return []uint32{1, 3, 9, 27}[i/4] << 8 })
	k.forEachBlock(256, 54, func() {
		table := levels(k.half(52))
		digits := func(codes, power reg.VecVirtual, at int) {
			z := ZMM()
			VPMULLW(power, codes, z)
			VPMULHUW(three, z, z)
			VPERMILPS(z, table, z)
			k.store(at, z)
		}
		for part := range 3 { // of 16 bytes
			codes := k.bytes(16 * part)
			for run, power := range powers {
				if part < 2 {
					digits(codes, power, 64*part+128*run)
				} else {
					digits(codes, power, 640+64*run)
				}
			}
		}
		last, codes := XMM(), ZMM()
		VPBROADCASTD(k.from(48), last)
		VPMOVZXBD(last, codes)
		digits(codes, own, 960)
	})
}
