package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// tq1 generates the kernel of TQ1_0. Bytes are fractions of 256 in base three: a power of three moves a digit up to where
// the product with three carries it out of the byte.
func tq1(reduce func() reduction) {
	powers := [5]uint16{1, 3, 9, 27, 81}
	// Blocks 0 to 4 are the digits of the first 32 bytes. Sixteen more bytes have five runs of digits, and the last four
	// bytes four runs of four.
	run := func(block, second int) (at int, power func(i int) uint16) {
		n := 2*(block-5) + second
		switch {
		case block < 5:
			return 16 * second, func(int) uint16 { return powers[block] }
		case n < 5:
			return 32, func(int) uint16 { return powers[n] }
		}
		return 48, func(i int) uint16 { return powers[i/4] }
	}
	super("tq1_0", 54, func(k *kernel) func() {
		zero, three, red := YMM(), keep(wordsOf("three_words", 3)), reduce()
		VPXOR(zero, zero, zero)
		digits := func(p, second int) VecVirtual {
			at, power := run(p, second)
			upperAt, upperPower := run(p+4, second)
			var v VecVirtual
			if upperAt == 48 {
				v = YMM()
				VPBROADCASTD(k.from(48), v)
				VINSERTI128(Imm(0), k.from(at), v, v)
			} else {
				v = k.two(at, upperAt)
			}
			var half [2]VecVirtual
			for h := range half {
				half[h] = YMM()
				if h == 0 {
					VPUNPCKLBW(v, zero, half[h])
				} else {
					VPUNPCKHBW(v, zero, half[h])
				}
				factors := bytes32(fmt.Sprintf("trit_powers_%d%d%d", p, second, h), func(i int) byte {
					f, word := power, 8*h+i%16/2
					if i >= 16 {
						f = upperPower
					}
					return byte(f(word) >> (i % 2 * 8))
				})
				VPMULLW(factors, half[h], half[h])
				VPMULHUW(three, half[h], half[h])
			}
			VPACKUSWB(half[1], half[0], half[0])
			return half[0]
		}
		return func() {
			c := k.sharedPairs(func(p int) (first, second Op) { return digits(p, 0), digits(p, 1) })
			finish := k.scaled(52)
			k.vectors(func() {
				total := red.sums(k, c)
				VPSUBD(k.act(sums), total, total)
				finish(total)
			})
		}
	})
}

// nvfp4 generates the kernel of NVFP4, for whole groups: four of its blocks are one. A block has four scales, and a scale
// sixteen codes.
func nvfp4() {
	super("nvfp4", 4*36, func(k *kernel) func() {
		low, table := keep(bytesOf("low_nibbles", 15)), keep(bytes32("fp4_values", func(i int) byte { return byte(kit.FP4[i%16]) + 12 }))
		code := func(p, second int) VecVirtual {
			at := p/2*36 + 4 + 8*(p%2*2+second)
			y, high := YMM(), YMM()
			VPBROADCASTQ(k.from(at), y)
			VPBROADCASTQ(k.from(at+72), high)
			VPBLENDD(Imm(0xf0), high, y, y)
			VPSRLVQ(bytes32("nibble_shifts", func(i int) byte { return []byte{8: 4, 15: 0}[i%16] }), y, y)
			VPAND(low, y, y)
			VPSHUFB(y, table, y)
			return y
		}
		return func() {
			x, y, nan := XMM(), YMM(), YMM()
			VMOVD(k.from(0), x)
			for b := 1; b < 4; b++ {
				VPINSRD(Imm(uint64(b)), k.from(36*b), x, x)
			}
			VPSHUFB(bytes32("even_odd_bytes", func(i int) byte { return byte(i%8*2 + i%16/8) }), x, x)
			VPMOVZXBW(x, y)
			VPCMPEQW(wordsOf("no_scale", 0x7f), y, nan)
			VPANDN(y, nan, y)
			VPAND(wordsOf("no_scale", 0x7f), y, y)
			VPSLLW(Imm(7), y, y)
			scale := k.first(2, func(second int) VecVirtual {
				d, h := YMM(), y.AsX()
				if second == 1 {
					h = XMM()
					VEXTRACTI128(Imm(1), y, h)
				}
				VCVTPH2PS(h, d)
				VMULPS(floatsOf("scale_bias", 128), d, d)
				return d
			})
			c := k.shared(code)
			k.vectors(func() {
				sums := k.act(halves)
				for second := range 2 {
					de, s := YMM(), YMM()
					VMULPS(k.act(scales), scale(second), de)
					var t [4]VecVirtual
					for p := range t {
						if level == avx2 {
							t[p] = pairs(products(c(p, second), k.act(64*p+32*second)), wordsOf("ones", 1))
						} else {
							t[p] = quadruples(nil, c(p, second), k.act(64*p+32*second))
						}
						if p%2 == 1 {
							t[p/2] = halve2(doublewords, t[p-1], t[p])
						}
					}
					total := halve4(doublewords, t[0], t[1])
					VMOVDQU(sums, s)
					if second == 0 {
						VPSLLD(Imm(16), s, s)
					}
					VPSRAD(Imm(16), s, s)
					VPMULLD(dwordsOf("twelve", 12), s, s) // codes are so much too great
					VPSUBD(s, total, total)
					k.add(de, total)
				}
			})
		}
	})
}
