package main

import (
	"github.com/mmcloughlin/avo/ir"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// VPDPBUSD multiplies four unsigned codes with four signed ones, and adds the products to a doubleword. VPDPWSSD does so
// with two words.

// quadruples adds to each doubleword of sum the products of four unsigned codes with the codes of the
// activation at m. A nil sum is zeros.
func quadruples(sum VecVirtual, codes Op, m Mem) VecVirtual {
	if sum == nil {
		sum = YMM()
		opcode := "VPXOR"
		if level == avx512 { // which takes registers past the sixteenth; avo would use such registers for all if it knew
			opcode = "VPXORD"
		}
		operands := []Op{sum, sum, sum}
		Instruction(&ir.Instruction{Opcode: opcode, Operands: operands, Inputs: operands[:2], Outputs: operands[2:], CancellingInputs: true})
	}
	accumulate("VPDPBUSD", m, register(codes), sum)
	return sum
}

// accumulate emits an instruction that adds products to its last operand. Avo knows none.
func accumulate(opcode string, operands ...Op) {
	Instruction(&ir.Instruction{Opcode: opcode, Operands: operands, Inputs: operands, Outputs: operands[2:]})
}

// narrowed packs doublewords that are words to words: in each lane, first four of a, then four of b.
func narrowed(a, b VecVirtual) VecVirtual {
	y := YMM()
	VPACKSSDW(b, a, y)
	return y
}

// neighbours adds neighbours among doublewords. Each lane of the result has two sums of a, then two of b.
func neighbours(a, b VecVirtual) VecVirtual {
	even, odd := YMM(), YMM()
	VSHUFPS(Imm(0x88), b, a, even)
	VSHUFPS(Imm(0xdd), b, a, odd)
	VPADDD(odd, even, even)
	return even
}

// dots returns the reduction of unsigned codes by VPDPBUSD.
func dots() reduction {
	pair := func(first, second Op, y func(at int) Mem) VecVirtual {
		return quadruples(quadruples(nil, first, y(0)), second, y(32))
	}
	return reduction{
		sums: func(k *kernel, c codes) VecVirtual {
			var t [4]VecVirtual
			for p := range t {
				first, second := c(p)
				t[p] = pair(first, second, func(at int) Mem { return k.act(64*p + at) })
				if p%2 == 1 {
					t[p/2] = halve2(doublewords, t[p-1], t[p])
				}
			}
			return halve4(doublewords, t[0], t[1])
		},
		one: pair,
	}
}

// weighed adds the products of eight blocks with their scales. Products of four codes are words, and products of a
// block too if its halves share a scale. factors returns the scales of blocks 2·pair and 2·pair+1, each in four words.
func (k *kernel) weighed(shared bool, code func(p, second int) Op, factors func(pair, second int) VecVirtual) VecVirtual {
	var sums [2]VecVirtual
	for pair := range sums {
		var t [2]VecVirtual
		for second := range 2 {
			for i := range t {
				p := 2*pair + i
				t[i] = quadruples(t[i], code(p, second), k.act(64*p+32*second))
			}
			if shared && second == 0 {
				continue
			}
			words, scales := narrowed(t[0], t[1]), factors(pair, second)
			if t = [2]VecVirtual{}; sums[pair] == nil {
				sums[pair] = pairs(words, scales)
			} else {
				accumulate("VPDPWSSD", scales, words, sums[pair])
			}
		}
	}
	return neighbours(sums[0], sums[1])
}

// blockFactors returns the factors of eight blocks with one scale each, in the bytes of k4, for weighed.
func (k *kernel) blockFactors(packed VecVirtual) func(pair, second int) VecVirtual {
	factors := k.first(2, func(pair int) VecVirtual {
		name := []string{"k4_scales_0011", "k4_scales_2233"}[pair]
		return shuffle(spread(name, func(w int) int { return 2*pair + w/4 }), packed)
	})
	return func(pair, _ int) VecVirtual { return factors(pair) }
}

// halfFactors returns the factors of eight blocks whose halves have scales: sixteen words in the order of halves.
func (k *kernel) halfFactors(sc VecVirtual) func(pair, second int) VecVirtual {
	factors := k.first(4, func(n int) VecVirtual {
		name := []string{"words_0022", "words_1133", "words_4466", "words_5577"}[n]
		return shuffle(bytes32(name, func(i int) byte { return byte(2*(n/2*4+n%2+i%16/8*2) + i%2) }), sc)
	})
	return func(pair, second int) VecVirtual { return factors(2*pair + second) }
}

// excess returns the products of sixteen scales and sums of codes, shifted left by shift.
func (k *kernel) excess(sc VecVirtual, shift uint64) VecVirtual {
	y := YMM()
	VPMADDWD(k.act(halves), sc, y)
	VPSLLD(Imm(shift), y, y)
	return y
}

// loadedOnce returns vectors by number, each loaded when it is first asked for.
func loadedOnce(load func(i int) VecVirtual) func(i int) VecVirtual {
	loaded := map[int]VecVirtual{}
	return func(i int) VecVirtual {
		if loaded[i] == nil {
			loaded[i] = load(i)
		}
		return loaded[i]
	}
}

// Truth tables of VPTERNLOG over its operands: c is the first in Go's order, b the second, a the third.
const tableA, tableB, tableC = 0xf0, 0xcc, 0xaa

func dottedSuperBlocks() {
	minWords := func() Mem { return spread("k4_mins", func(w int) int { return 4 + w/2 }) }
	// lanes returns both lanes of sixteen bytes, shifted so that what concerns the upper blocks is where it is for the lower.
	lanes := func(k *kernel, at int, shifts VecVirtual) VecVirtual {
		y := YMM()
		VBROADCASTI128(k.from(at), y)
		VPSRLVD(shifts, y, y)
		return y
	}
	upper := func() VecVirtual {
		return keep(dwords("upper_lane_4", func(i int) uint32 { return uint32(i / 4 * 4) }))
	}
	// merged returns the nibbles of v, shifted down, with the bits of b that mask has.
	merged := func(v VecVirtual, shift int, low, b VecVirtual, mask Op) VecVirtual {
		VPAND(mask, b, b)
		if level == avx512 {
			y := moved(v, -shift)
			VPTERNLOGD(U8(tableA&tableB|tableC), b, low, y)
			return y
		}
		y := field(v, shift, low)
		VPOR(b, y, y)
		return y
	}
	super("q4_K", 144, func(k *kernel) func() {
		low, minAt := keep(bytesOf("low_nibbles", 15)), keep(minWords())
		unpack := k.k4()
		return func() {
			packed := unpack()
			v := k.sixteens(16, 64)
			code := k.shared(func(p, second int) VecVirtual { return field(v(p/2*2+second), p%2*4, low) })
			factors, finish := k.blockFactors(packed), k.scaledPair(0)
			mins := k.first(1, func(int) VecVirtual { return shuffle(minAt, packed) })
			k.vectors(func() {
				total := k.weighed(true, code, factors)
				finish(total, mins(0))
			})
		}
	})
	super("q5_K", 176, func(k *kernel) func() {
		low, sixteen, shifts := keep(bytesOf("low_nibbles", 15)), keep(bytesOf("sixteen", 16)), upper()
		unpack := k.k4()
		return func() {
			packed := unpack()
			v := k.sixteens(48, 64)
			bits := loadedOnce(func(i int) VecVirtual { return lanes(k, 16+16*i, shifts) })
			code := k.shared(func(p, second int) VecVirtual {
				return merged(v(p/2*2+second), p%2*4, low, moved(bits(second), 4-p), sixteen)
			})
			factors, finish := k.blockFactors(packed), k.scaledPair(0)
			mins := k.first(1, func(int) VecVirtual { return shuffle(minWords(), packed) })
			k.vectors(func() {
				total := k.weighed(true, code, factors)
				finish(total, mins(0))
			})
		}
	})
	super("q6_K", 210, func(k *kernel) func() {
		low, third := keep(bytesOf("low_nibbles", 15)), keep(bytesOf("third_crumbs", 0x30))
		return func() {
			sc := YMM()
			VPMOVSXBW(k.from(192), sc)
			v := k.sixteens(0, 64)
			bits := k.sixteens(128, 32)
			code := k.shared(func(p, second int) VecVirtual {
				return merged(v(p%2*2+second), p/2*4, low, moved(bits(second), 4-2*p), third)
			})
			factors, finish := k.halfFactors(sc), k.scaled(208)
			k.vectors(func() {
				less := k.excess(sc, 5)
				total := k.weighed(false, code, factors)
				VPSUBD(less, total, total)
				finish(total)
			})
		}
	})
	// Two-bit codes: block p has bits 2p and 2p+1 of 32 bytes, block p+4 the bits of the other 32.
	crumbs := func(k *kernel, at int) func() func(p, second int) VecVirtual {
		three := keep(bytesOf("three", 3))
		return func() func(p, second int) VecVirtual {
			v := k.sixteens(at, 32)
			return func(p, second int) VecVirtual { return field(v(second), 2*p, three) }
		}
	}
	super("q2_K", 84, func(k *kernel) func() {
		code, low := crumbs(k, 16), keep(wordsOf("low_nibble_words", 15))
		return func() {
			packed := YMM()
			VPMOVZXBW(k.from(0), packed)
			sc, c := field(packed, 0, low), k.shared(code())
			factors, finish := k.halfFactors(sc), k.scaledPair(80)
			mins := k.first(1, func(int) VecVirtual { return shifted(packed, 4) })
			k.vectors(func() {
				total := k.weighed(false, c, factors)
				finish(total, mins(0))
			})
		}
	})
	super("q3_K", 110, func(k *kernel) func() {
		code, four, shifts := crumbs(k, 32), keep(bytesOf("four", 4)), upper()
		thirtyTwo := keep(wordsOf("thirty_two_words", 32))
		unpack := k.k3()
		return func() {
			sc := unpack()
			VPSUBW(thirtyTwo, sc, sc)
			low := code()
			bits := loadedOnce(func(i int) VecVirtual { return lanes(k, 16*i, shifts) })
			c := k.shared(func(p, second int) VecVirtual {
				y, b := low(p, second), moved(bits(second), 2-p)
				VPAND(four, b, b)
				VPOR(b, y, y)
				return y
			})
			factors, finish := k.halfFactors(sc), k.scaled(108)
			k.vectors(func() {
				less := k.excess(sc, 2)
				total := k.weighed(false, c, factors)
				VPSUBD(less, total, total)
				finish(total)
			})
		}
	})
	super("tq2_0", 66, func(k *kernel) func() {
		code, red := crumbs(k, 0), dots()
		return func() {
			c, finish := k.shared(code()), k.scaled(64)
			k.vectors(func() {
				total := red.sums(k, func(p int) (first, second Op) { return c(p, 0), c(p, 1) })
				VPSUBD(k.act(sums), total, total)
				finish(total)
			})
		}
	})
	super("iq4_XS", 136, func(k *kernel) func() {
		low, table := keep(bytesOf("low_nibbles", 15)), keep(iq4(128))
		red := dots()
		k.size = 16
		return func() {
			c := k.sharedPairs(func(p int) (_, _ Op) {
				y := k.load(p, 8)
				first, second := field(y, 0, low), field(y, 4, low)
				VPSHUFB(first, table, first)
				VPSHUFB(second, table, second)
				return first, second
			})
			sc, finish := k.first(1, func(int) VecVirtual { return k.xsScales() }), k.scaled(0)
			k.vectors(func() {
				total := red.sums(k, c)
				s := keep(k.act(sums))
				VPSLLD(Imm(7), s, s)
				VPSUBD(s, total, total)
				VPMULLD(sc(0), total, total)
				finish(total)
			})
		}
	})
}

// moved returns v shifted up by n bits, or down by -n.
func moved(v VecVirtual, n int) VecVirtual {
	y := YMM()
	switch {
	case n > 0:
		VPSLLW(Imm(uint64(n)), v, y)
	case n < 0:
		VPSRLW(Imm(uint64(-n)), v, y)
	default:
		VMOVAPS(v, y)
	}
	return y
}
