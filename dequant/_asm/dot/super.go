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
	block := body(k)
	k.eachRow(func() {
		MOVQ(k.blocks, k.left)
		Label("block")
		block()
		ADDQ(U32(size), k.src)
		ADDQ(U32(groupBytes), k.group)
		DECQ(k.left)
		JNZ(LabelRef("block"))
	})
	manyRows(name, size, func(k *kernel) { body(k)() })
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

// sixteens returns vectors by number: sixteen bytes from at+16i on in the lower lane, and those so far apart in the upper.
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

// scaled loads a binary16 and multiplies it with the activation's scale.
func (k *kernel) scaled(at int) VecVirtual {
	y := YMM()
	VPBROADCASTW(k.from(at), y.AsX())
	VCVTPH2PS(y.AsX(), y)
	VMULPS(k.act(scales), y, y)
	return y
}

// scaledPair loads two binary16s that lie side by side, and multiplies both with the activation's scale.
func (k *kernel) scaledPair(at int) (d, m VecVirtual) {
	x, y := XMM(), YMM()
	d, m = YMM(), YMM()
	VPBROADCASTD(k.from(at), x)
	VCVTPH2PS(x, y)
	VMULPS(k.act(scales), y, y)
	VMOVSLDUP(y, d)
	VMOVSHDUP(y, m)
	return d, m
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

// offsets subtracts the products of offsets and sums of codes. Word i is the offset of sum i.
func (k *kernel) offsets(m, mins VecVirtual) {
	products := mins
	if k.many {
		products = YMM()
	}
	VPMADDWD(k.act(halves), mins, products)
	k.subtract(m, products)
}

func superBlocks() {
	scaleWords := func() Mem { return spread("k4_scales", func(w int) int { return w / 2 }) }
	minWords := func() Mem { return spread("k4_mins", func(w int) int { return 4 + w/2 }) }
	super("q4_K", 144, func(k *kernel) func() {
		low := keep(bytesOf("low_nibbles", 15))
		scaleAt, minAt := keep(scaleWords()), keep(minWords())
		unpack := k.k4()
		return func() {
			packed := unpack()
			sc, mins := YMM(), YMM()
			VPSHUFB(scaleAt, packed, sc)
			VPSHUFB(minAt, packed, mins)
			var t [4]VecVirtual
			for c := range 2 {
				a, b := k.pair(16+32*c, 80+32*c)
				for high := range 2 {
					p := 2*c + high
					t[p] = products(field(a, 4*high, low), k.act(64*p))
					VPADDW(products(field(b, 4*high, low), k.act(64*p+32)), t[p], t[p])
				}
				t[c] = halve2(words, t[2*c], t[2*c+1])
			}
			d, m := k.scaledPair(0)
			k.add(d, pairs(halve4(words, t[0], t[1]), sc))
			k.offsets(m, mins)
		}
	})
	super("q5_K", 176, func(k *kernel) func() {
		low, sixteen := keep(bytesOf("low_nibbles", 15)), keep(bytesOf("sixteen", 16))
		lanes := keep(dwords("upper_bits", func(i int) uint32 { return []uint32{4, 0}[i/4] }))
		unpack := k.k4()
		return func() {
			packed := unpack()
			var bits [2]VecVirtual
			for i := range bits {
				bits[i] = YMM()
				VBROADCASTI128(k.from(16+16*i), bits[i])
				VPSLLVD(lanes, bits[i], bits[i])
			}
			code := func(v VecVirtual, high, p, i int) VecVirtual {
				y := field(v, 4*high, low)
				VPOR(field(bits[i], p, sixteen), y, y)
				return y
			}
			var t [4]VecVirtual
			for c := range 2 {
				a, b := k.pair(48+32*c, 112+32*c)
				for high := range 2 {
					p := 2*c + high
					t[p] = products(code(a, high, p, 0), k.act(64*p))
					VPADDW(products(code(b, high, p, 1), k.act(64*p+32)), t[p], t[p])
				}
				sc := shuffle(spread([]string{"k4_scales_01", "k4_scales_23"}[c], func(w int) int { return 2*c + w/2%2 }), packed)
				t[c] = pairs(halve2(words, t[2*c], t[2*c+1]), sc)
			}
			d, m := k.scaledPair(0)
			k.add(d, halve4(doublewords, t[0], t[1]))
			k.offsets(m, shuffle(minWords(), packed))
		}
	})
	super("q6_K", 210, func(k *kernel) func() {
		low, upper := keep(bytesOf("low_nibbles", 15)), keep(bytesOf("third_crumbs", 0x30))
		return func() {
			sc := YMM()
			VPMOVSXBW(k.from(192), sc)
			// Codes are 32 too great.
			sum := YMM()
			VPMADDWD(k.act(halves), sc, sum)
			VPSLLD(Imm(5), sum, sum)
			var halfs [2]VecVirtual
			v, bitsOf := k.sixteens(0, 64), k.sixteens(128, 32)
			for second := range 2 {
				bits, ab := bitsOf(second), [2]VecVirtual{v(second), v(2 + second)}
				var t [4]VecVirtual
				for p := range t {
					codes, b := field(ab[p%2], p/2*4, low), YMM()
					if p < 2 {
						VPSLLW(Imm(uint64(4-2*p)), bits, b)
						VPAND(upper, b, b)
					} else {
						b = field(bits, 2*p-4, upper)
					}
					VPOR(b, codes, codes)
					t[p] = products(codes, k.act(64*p+32*second))
					if p%2 == 1 {
						factors := YMM()
						VPSHUFB(bytes32([]string{"q6_scales_0", "q6_scales_1", "q6_scales_2", "q6_scales_3"}[p-1+second], func(i int) byte {
							return byte(2*(2*(p-1)+second+2*(i%8/4)) + i%2)
						}), sc, factors)
						t[p/2] = pairs(halve2(words, t[p-1], t[p]), factors)
					}
				}
				halfs[second] = halve4(doublewords, t[0], t[1])
			}
			VPADDD(halfs[1], halfs[0], halfs[0])
			VPSUBD(sum, halfs[0], halfs[0])
			k.add(k.scaled(208), halfs[0])
		}
	})
	// Two-bit codes: block p has bits 2p and 2p+1 of 32 bytes, block p+4 those of the other 32.
	crumbs := func(k *kernel, at int) func(second int) func(p int) VecVirtual {
		three, v := keep(bytesOf("three", 3)), k.sixteens(at, 32)
		return func(second int) func(p int) VecVirtual {
			return func(p int) VecVirtual { return field(v(second), 2*p, three) }
		}
	}
	// sixteens adds the products of blocks whose halves have scales of their own: words in their order.
	sixteens := func(k *kernel, sc VecVirtual, code func(second int) func(p int) VecVirtual) VecVirtual {
		var sums [2]VecVirtual
		for second := range sums {
			c := code(second)
			var t [4]VecVirtual
			for p := range t {
				t[p] = products(c(p), k.act(64*p+32*second))
				if p%2 == 1 {
					t[p/2] = halve2(words, t[p-1], t[p])
				}
			}
			factors := shuffle(bytes32([]string{"even_words", "odd_words"}[second], func(i int) byte { return byte(i%16/4*4 + 2*second + i%2) }), sc)
			sums[second] = pairs(halve4(words, t[0], t[1]), factors)
		}
		VPADDD(sums[1], sums[0], sums[0])
		return sums[0]
	}
	super("q2_K", 84, func(k *kernel) func() {
		code, low := crumbs(k, 16), keep(wordsOf("low_nibble_words", 15))
		return func() {
			packed := YMM()
			VPMOVZXBW(k.from(0), packed)
			total := sixteens(k, field(packed, 0, low), code)
			d, m := k.scaledPair(80)
			k.add(d, total)
			k.offsets(m, shifted(packed, 4))
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
			// Codes are 4 too great.
			sum := YMM()
			VPMADDWD(k.act(halves), sc, sum)
			VPSLLD(Imm(2), sum, sum)
			total := sixteens(k, sc, func(second int) func(p int) VecVirtual {
				low, bits := code(second), YMM()
				VBROADCASTI128(k.from(16*second), bits)
				VPSLLVD(lanes, bits, bits)
				return func(p int) VecVirtual {
					y := low(p)
					VPOR(field(bits, p+2, four), y, y)
					return y
				}
			})
			VPSUBD(sum, total, total)
			k.add(k.scaled(108), total)
		}
	})
	super("tq2_0", 66, func(k *kernel) func() {
		code := crumbs(k, 0)
		ones := keep(wordsOf("ones", 1))
		return func() {
			var t [4]VecVirtual
			first, second := code(0), code(1)
			for p := range t {
				t[p] = products(first(p), k.act(64*p))
				VPADDW(products(second(p), k.act(64*p+32)), t[p], t[p])
				if p%2 == 1 {
					t[p/2] = halve2(words, t[p-1], t[p])
				}
			}
			total := pairs(halve4(words, t[0], t[1]), ones)
			VPSUBD(k.act(sums), total, total)
			k.add(k.scaled(64), total)
		}
	})
	super("iq4_XS", 136, func(k *kernel) func() {
		low, table := keep(bytesOf("low_nibbles", 15)), keep(iq4(0))
		red := signed()
		k.size = 16
		return func() {
			total := red.sums(k, func(p int) (first, second VecVirtual) {
				y := k.load(p, 8)
				first, second = field(y, 0, low), field(y, 4, low)
				VPSHUFB(first, table, first)
				VPSHUFB(second, table, second)
				return first, second
			})
			VPMULLD(k.xsScales(), total, total)
			k.add(k.scaled(0), total)
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
