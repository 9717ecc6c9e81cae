package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A block of 256 elements is eight of 32, which are dealt as small blocks are.

// super generates the kernel of a type whose blocks have size bytes.
func super(name string, size int, body func(k *kernel) func()) {
	k := begin(name)
	k.late = level == avx2 || level == avx512 && name != "q3_K" // which runs out of the first sixteen registers
	block := body(k)
	k.eachRow(func() {
		if k.late {
			k.lateTotal, k.lateScales, k.lateMinsRegister = YMM(), YMM(), YMM()
			for _, v := range []VecVirtual{k.lateTotal, k.lateScales, k.lateMinsRegister} {
				VPXOR(v, v, v)
			}
		}
		MOVQ(k.blocks, k.left)
		Label("block")
		block()
		ADDQ(U32(size), k.src)
		ADDQ(U32(groupBytes), k.group)
		DECQ(k.left)
		JNZ(LabelRef("block"))
		if k.lateUsed {
			k.addLate()
		}
	})
	manyRows(name, size, func(k *kernel) { body(k)() })
}

// addLate adds to the partial sums what the block before has left. Conversion, products and sums take the time of a dozen instructions,
// which nobody waits for a block later: Q4_K is 1.08 times as fast.
func (k *kernel) addLate() {
	if k.lateMins == nil {
		k.add(k.lateScales, k.lateTotal)
		return
	}
	d, m := YMM(), YMM()
	VMOVSLDUP(k.lateScales, d)
	VMOVSHDUP(k.lateScales, m)
	k.add(d, k.lateTotal)
	k.subtract(m, k.lateMins)
}

// two returns sixteen bytes from first on in the lower lane, and from second on in the upper.
func (k *kernel) two(first, second int) VecVirtual {
	y := YMM()
	VBROADCASTI128(k.from(first), y)
	VINSERTI128(Imm(1), k.from(second), y, y)
	return y
}

// pair returns 32 bytes from first on and 32 from second on as two vectors: the first sixteen of both, and the others.
func (k *kernel) pair(first, second int) (a, b VecVirtual) {
	a, b = YMM(), YMM()
	VMOVDQU(k.from(first), a)
	VPERM2I128(Imm(0x31), k.from(second), a, b)
	VINSERTI128(Imm(1), k.from(second), a, a)
	return a, b
}

// sixteens returns vectors by number: sixteen bytes from at+16i on in the lower lane, and the bytes as far apart in the upper lane.
// Two are loaded when one is first asked for.
func (k *kernel) sixteens(at, apart int) func(i int) VecVirtual {
	loaded := map[int]VecVirtual{}
	return func(i int) VecVirtual {
		if loaded[i] == nil {
			even := i &^ 1
			loaded[even], loaded[even+1] = k.pair(at+16*even, at+apart+16*even)
		}
		return loaded[i]
	}
}

// k4 returns what unpacks scales and offsets of Q4_K and Q5_K. Eight bytes of a lane are four scales and their offsets:
// 0 to 3 in the lower lane, 4 to 7 in the upper.
func (k *kernel) k4() func() VecVirtual {
	masks := [3]GPVirtual{GP64(), GP64(), GP64()}
	for i, m := range []uint64{0x3f, 0x30, 0x0f} {
		MOVQ(U64(m*0x0101010101010101), masks[i])
	}
	return func() VecVirtual {
		low, high, nibbles, upper := GP64(), GP64(), GP64(), GP64()
		MOVQ(k.from(4), low)
		MOVL(k.from(12), nibbles.As32())
		MOVQ(low, high)
		ANDQ(masks[0], low)
		SHRQ(Imm(2), high)
		MOVQ(nibbles, upper)
		SHLQ(Imm(28), upper)
		ORQ(upper, nibbles)
		ANDQ(masks[1], high)
		ANDQ(masks[2], nibbles)
		ORQ(nibbles, high)
		y, upperLane := YMM(), XMM()
		VMOVQ(low, y.AsX())
		VMOVQ(high, upperLane)
		VINSERTI128(Imm(1), upperLane, y, y)
		return y
	}
}

// spread returns the address of a shuffle that makes words of a lane's bytes. Word w is byte f(w).
func spread(name string, f func(word int) int) Mem {
	return bytes32(name, func(i int) byte {
		if i%2 == 1 {
			return 0x80
		}
		return byte(f(i % 16 / 2))
	})
}

func shuffle(m Op, v VecVirtual) VecVirtual {
	y := YMM()
	VPSHUFB(m, v, y)
	return y
}

func superBlocks() {
	scaleWords := func() Mem { return spread("k4_scales", func(w int) int { return w / 2 }) }
	minWords := func() Mem { return spread("k4_mins", func(w int) int { return 4 + w/2 }) }
	// shared adds the products of blocks p and p+1 with one scale each: words of their halves.
	shared := func(k *kernel, code func(p, second int) Op, p int) VecVirtual {
		var t [2]VecVirtual
		for i := range t {
			t[i] = products(code(p+i, 0), k.act(64*(p+i)))
			VPADDW(products(code(p+i, 1), k.act(64*(p+i)+32)), t[i], t[i])
		}
		return halve2(words, t[0], t[1])
	}
	super("q4_K", 144, func(k *kernel) func() {
		low := keep(bytesOf("low_nibbles", 15))
		scaleAt, minAt := keep(scaleWords()), keep(minWords())
		unpack := k.k4()
		return func() {
			packed := unpack()
			sc, mins := shuffle(scaleAt, packed), shuffle(minAt, packed)
			v := k.sixteens(16, 64)
			code := k.shared(func(p, second int) VecVirtual { return field(v(p/2*2+second), p%2*4, low) })
			finish := k.scaledPair(0)
			k.vectors(func() {
				first := shared(k, code, 0)
				total := pairs(halve4(words, first, shared(k, code, 2)), sc)
				finish(total, mins)
			})
		}
	})
	super("q5_K", 176, func(k *kernel) func() {
		low, sixteen := keep(bytesOf("low_nibbles", 15)), keep(bytesOf("sixteen", 16))
		lanes := keep(dwords("upper_bits", func(i int) uint32 { return []uint32{4, 0}[i/4] }))
		unpack := k.k4()
		return func() {
			packed := unpack()
			bits := loadedOnce(func(i int) VecVirtual {
				y := YMM()
				VBROADCASTI128(k.from(16+16*i), y)
				VPSLLVD(lanes, y, y)
				return y
			})
			v := k.sixteens(48, 64)
			code := k.shared(func(p, second int) VecVirtual {
				y := field(v(p/2*2+second), p%2*4, low)
				VPOR(field(bits(second), p, sixteen), y, y)
				return y
			})
			factors := k.first(2, func(pair int) VecVirtual {
				return shuffle(spread([]string{"k4_scales_01", "k4_scales_23"}[pair], func(w int) int { return 2*pair + w/2%2 }), packed)
			})
			mins := k.first(1, func(int) VecVirtual { return shuffle(minWords(), packed) })
			finish := k.scaledPair(0)
			k.vectors(func() {
				var sums [2]VecVirtual
				for pair := range sums {
					sums[pair] = pairs(shared(k, code, 2*pair), factors(pair))
				}
				total := halve4(doublewords, sums[0], sums[1])
				finish(total, mins(0))
			})
		}
	})
	super("q6_K", 210, func(k *kernel) func() {
		low, upper := keep(bytesOf("low_nibbles", 15)), keep(bytesOf("third_crumbs", 0x30))
		return func() {
			sc := YMM()
			VPMOVSXBW(k.from(192), sc)
			v, bits := k.sixteens(0, 64), k.sixteens(128, 32)
			code := k.shared(func(p, second int) VecVirtual {
				y, b := field(v(p%2*2+second), p/2*4, low), bits(second)
				if p < 2 {
					b = moved(b, 4-2*p)
				}
				VPOR(field(b, max(0, 2*p-4), upper), y, y)
				return y
			})
			factors := k.first(4, func(n int) VecVirtual {
				name := []string{"q6_scales_0", "q6_scales_1", "q6_scales_2", "q6_scales_3"}[n]
				return shuffle(bytes32(name, func(i int) byte { return byte(2*(4*(n/2)+n%2+2*(i%8/4)) + i%2) }), sc)
			})
			finish := k.scaled(208)
			k.vectors(func() {
				less := k.excess(sc, 5) // codes are 32 too great
				var sums [2]VecVirtual
				for second := range sums {
					var t [4]VecVirtual
					for p := range t {
						t[p] = products(code(p, second), k.act(64*p+32*second))
						if p%2 == 1 {
							t[p/2] = pairs(halve2(words, t[p-1], t[p]), factors(p-1+second))
						}
					}
					sums[second] = halve4(doublewords, t[0], t[1])
				}
				VPADDD(sums[1], sums[0], sums[0])
				VPSUBD(less, sums[0], sums[0])
				finish(sums[0])
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
	// factorsOf returns the scales of first halves and of second ones, of words in the order of halves.
	factorsOf := func(k *kernel, sc VecVirtual) func(second int) VecVirtual {
		return k.first(2, func(second int) VecVirtual {
			name := []string{"even_words", "odd_words"}[second]
			return shuffle(bytes32(name, func(i int) byte { return byte(i%16/4*4 + 2*second + i%2) }), sc)
		})
	}
	// sixteens adds the products of blocks whose halves have scales of their own.
	sixteens := func(k *kernel, code func(p, second int) Op, factors func(second int) VecVirtual) VecVirtual {
		var sums [2]VecVirtual
		for second := range sums {
			var t [4]VecVirtual
			for p := range t {
				t[p] = products(code(p, second), k.act(64*p+32*second))
				if p%2 == 1 {
					t[p/2] = halve2(words, t[p-1], t[p])
				}
			}
			sums[second] = pairs(halve4(words, t[0], t[1]), factors(second))
		}
		VPADDD(sums[1], sums[0], sums[0])
		return sums[0]
	}
	super("q2_K", 84, func(k *kernel) func() {
		code, low := crumbs(k, 16), keep(wordsOf("low_nibble_words", 15))
		return func() {
			packed := YMM()
			VPMOVZXBW(k.from(0), packed)
			c := k.shared(code())
			factors := factorsOf(k, field(packed, 0, low))
			mins := k.first(1, func(int) VecVirtual { return shifted(packed, 4) })
			finish := k.scaledPair(80)
			k.vectors(func() {
				total := sixteens(k, c, factors)
				finish(total, mins(0))
			})
		}
	})
	super("q3_K", 110, func(k *kernel) func() {
		code, four := crumbs(k, 32), keep(bytesOf("four", 4))
		lanes := keep(dwords("upper_bits", func(i int) uint32 { return []uint32{4, 0}[i/4] }))
		thirtyTwo := keep(wordsOf("thirty_two_words", 32))
		unpack := k.k3()
		return func() {
			sc := unpack()
			VPSUBW(thirtyTwo, sc, sc)
			low := code()
			bits := loadedOnce(func(second int) VecVirtual {
				y := YMM()
				VBROADCASTI128(k.from(16*second), y)
				VPSLLVD(lanes, y, y)
				return y
			})
			c := k.shared(func(p, second int) VecVirtual {
				y := low(p, second)
				VPOR(field(bits(second), p+2, four), y, y)
				return y
			})
			factors, finish := factorsOf(k, sc), k.scaled(108)
			k.vectors(func() {
				less := k.excess(sc, 2) // codes are 4 too great
				total := sixteens(k, c, factors)
				VPSUBD(less, total, total)
				finish(total)
			})
		}
	})
	super("tq2_0", 66, func(k *kernel) func() {
		code, red := crumbs(k, 0), unsigned(4)
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
		low, table := keep(bytesOf("low_nibbles", 15)), keep(iq4(0))
		red := signed()
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
				VPMULLD(sc(0), total, total)
				finish(total)
			})
		}
	})
}

// xsScales unpacks the scales of IQ4_XS.
func (k *kernel) xsScales() VecVirtual {
	sc, high := YMM(), YMM()
	VPBROADCASTD(k.from(4), sc)
	VPSRLVD(dwords("scale_nibbles", func(i int) uint32 { return uint32(4 * i) }), sc, sc)
	VPAND(dwordsOf("low_nibble_dwords", 15), sc, sc)
	VPBROADCASTD(k.from(0), high)
	VPSRLVD(dwords("scale_crumbs", func(i int) uint32 { return uint32(16 + 2*i) }), high, high)
	VPAND(dwordsOf("three_dwords", 3), high, high)
	VPSLLD(Imm(4), high, high)
	VPOR(high, sc, sc)
	VPSUBD(dwordsOf("thirty_two_dwords", 32), sc, sc)
	return sc
}

// k3 returns what unpacks the sixteen scales of Q3_K, 32 too great, as words.
func (k *kernel) k3() func() VecVirtual {
	nibbles, crumbs := GP64(), GP64()
	MOVQ(U64(0x0f0f0f0f0f0f0f0f), nibbles)
	MOVQ(U64(0x0303030303030303), crumbs)
	return func() VecVirtual {
		low, high, bits, other := GP64(), GP64(), GP64(), GP64()
		MOVQ(k.from(96), low)
		MOVL(k.from(104), bits.As32())
		MOVQ(low, high)
		SHRQ(Imm(4), high)
		ANDQ(nibbles, low)
		ANDQ(nibbles, high)
		// Bits 0 and 1 of four bytes complete scales 0 to 3, bits 2 and 3 scales 4 to 7, and so on.
		MOVQ(bits, other)
		SHLQ(Imm(30), other)
		ORQ(other, bits)
		MOVQ(bits, other)
		SHRQ(Imm(4), other)
		ANDQ(crumbs, bits)
		ANDQ(crumbs, other)
		SHLQ(Imm(4), bits)
		SHLQ(Imm(4), other)
		ORQ(bits, low)
		ORQ(other, high)
		x, y := XMM(), YMM()
		VMOVQ(low, x)
		VPINSRQ(Imm(1), high, x, x)
		VPMOVZXBW(x, y)
		return y
	}
}
