package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// Eight blocks of 32 are multiplied together. A vector has sixteen codes of block p in its lower
// lane, and the same ones of block p+4 in its upper lane. The sums of four such vectors, halved
// twice, are a vector of eight sums in the order of blocks.
//
// Of blocks that are no eight, four are multiplied as if they were. The upper lanes have their codes too, but scales of 0.
// Others are multiplied one by one, in the lower lane.

// eight reports whether the upper lanes have blocks of their own.
func (k *kernel) eight() bool { return k.tail == nil && !k.four }

// load returns sixteen bytes from at on of block p and of block p+4. A broadcast from memory costs no more
// than a load.
func (k *kernel) load(p, at int) VecVirtual {
	y := YMM()
	VBROADCASTI128(k.from(p*k.size+at), y)
	if k.eight() {
		VINSERTI128(Imm(1), k.from((p+4)*k.size+at), y, y)
	}
	return y
}

// dword returns four bytes from at on of block p throughout the lower lane, and of block p+4 in the upper.
func (k *kernel) dword(p, at int) VecVirtual {
	y := YMM()
	VPBROADCASTD(k.from(p*k.size+at), y)
	if k.eight() {
		high := YMM()
		VPBROADCASTD(k.from((p+4)*k.size+at), high)
		VPBLENDD(Imm(0xf0), high, y, y)
	}
	return y
}

// word returns two bytes from at on of block p, and of block p+4, as a mask.
func (k *kernel) word(p, at int) OpmaskVirtual {
	bits, mask := GP32(), K()
	if k.eight() {
		MOVWLZX(k.from((p+4)*k.size+at), bits)
		SHLL(Imm(16), bits)
		MOVW(k.from(p*k.size+at), bits.As16())
	} else {
		MOVWLZX(k.from(p*k.size+at), bits)
	}
	KMOVD(bits, mask)
	return mask
}

// codes returns the first and the second sixteen codes of blocks p and p+4.
type codes func(p int) (first, second Op)

// A reduction turns the codes of four pairs of blocks into eight sums. one does so for the lower lane
// of a single pair: its four doublewords are parts of the sum.
type reduction struct {
	sums func(k *kernel, c codes) VecVirtual
	one  func(first, second Op, y func(at int) Mem) VecVirtual
}

// unsigned returns the reduction of codes so small that sums over 4 or 2 pairs of blocks fit 16 bits.
func unsigned(pairsInWord int) reduction {
	ones := keep(wordsOf("ones", 1))
	pair := func(first, second Op, y func(at int) Mem) VecVirtual {
		t := products(first, y(0))
		VPADDW(products(second, y(32)), t, t)
		return t
	}
	return reduction{
		sums: func(k *kernel, c codes) VecVirtual {
			var t [4]VecVirtual
			for p := range t {
				first, second := c(p)
				t[p] = pair(first, second, func(at int) Mem { return k.act(64*p + at) })
				if p%2 == 1 {
					t[p/2] = halve2(words, t[p-1], t[p])
					if pairsInWord == 2 {
						t[p/2] = pairs(t[p/2], ones)
					}
				}
			}
			if pairsInWord == 2 {
				return halve4(doublewords, t[0], t[1])
			}
			return pairs(halve4(words, t[0], t[1]), ones)
		},
		one: func(first, second Op, y func(at int) Mem) VecVirtual {
			return pairs(pair(first, second, y), ones)
		},
	}
}

// signed returns the reduction of codes with products so large that the sum of two may exceed 16 bits.
func signed() reduction {
	ones := keep(wordsOf("ones", 1))
	pair := func(first, second Op, y func(at int) Mem) VecVirtual {
		t := pairs(signedProducts(first, y(0)), ones)
		VPADDD(pairs(signedProducts(second, y(32)), ones), t, t)
		return t
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

// A scaler returns the scales of eight blocks, and their offsets or nil. In a tail it returns the scale and offset of one block
// in all elements.
type scaler func(k *kernel) (d, m VecVirtual)

// heads returns the first four bytes of eight blocks.
func (k *kernel) heads() VecVirtual {
	y := YMM()
	VPBROADCASTD(k.from(0), y)
	if k.tail != nil {
		return y
	}
	var v [8]VecVirtual
	v[0] = y
	for i := 1; i < 8 && (i < 4 || !k.four); i++ {
		v[i] = YMM()
		VPBROADCASTD(k.from(i*k.size), v[i])
		if i%2 == 1 {
			VPBLENDD(Imm(1<<i), v[i], v[i-1], v[i-1])
		}
	}
	VPBLENDD(Imm(0x0c), v[2], v[0], v[0])
	if k.four {
		return v[0]
	}
	VPBLENDD(Imm(0xc0), v[6], v[4], v[4])
	VPBLENDD(Imm(0xf0), v[4], v[0], v[0])
	return v[0]
}

// half reads a binary16.
func half(k *kernel) (d, m VecVirtual) { return k.halfAt(0), nil }

// twoHalves reads two binary16s.
func twoHalves(k *kernel) (d, m VecVirtual) { return k.halfAt(0), k.halfAt(2) }

// halfAt reads a binary16 of each block. Eight are put together in general registers, since the units of
// vectors are busy.
func (k *kernel) halfAt(at int) VecVirtual {
	y := YMM()
	if k.tail != nil {
		VPBROADCASTW(k.from(at), y.AsX())
		VCVTPH2PS(y.AsX(), y)
		return y
	}
	var four [2]GPVirtual
	for i := range four {
		if k.four && i == 1 {
			break
		}
		four[i] = GP64()
		MOVWLZX(k.from((4*i+3)*k.size+at), four[i].As32())
		for b := 2; b >= 0; b-- {
			SHLQ(Imm(16), four[i])
			MOVW(k.from((4*i+b)*k.size+at), four[i].As16())
		}
	}
	x := XMM()
	VMOVQ(four[0], x)
	if !k.four {
		VPINSRQ(Imm(1), four[1], x, x)
	}
	VCVTPH2PS(x, y)
	return y
}

// exponent reads MXFP4's: half of 2^(e-127). The first two are subnormal.
func exponent(k *kernel) (d, m VecVirtual) {
	e := k.heads()
	VPAND(dwordsOf("low_bytes", 0xff), e, e)
	normal, subnormal, above := YMM(), YMM(), YMM()
	VPADDD(dwordsOf("minus_one", 0xffffffff), e, normal)
	VPSLLD(Imm(23), normal, normal)
	VMOVDQU(dwordsOf("subnormal", 0x00200000), subnormal)
	VPSLLVD(e, subnormal, subnormal)
	VPCMPGTD(dwordsOf("one", 1), e, above)
	VPBLENDVB(above, normal, subnormal, subnormal)
	if k.four {
		VMOVDQA(subnormal.AsX(), subnormal.AsX()) // clears the upper lane
	}
	return subnormal, nil
}

// small generates the kernel of a type whose blocks have size bytes. less is subtracted from all codes.
func small(name string, size, less int, scale scaler, r func() reduction, c func(k *kernel) codes) {
	k := begin(name)
	k.size = size
	red, unpack := r(), c(k)
	tail, number := GP64(), GP64()
	MOVQ(k.blocks, tail)
	ANDQ(Imm(7), tail)
	SHRQ(Imm(3), k.blocks)
	finish := func(sum VecVirtual, at func(at int) Mem, load func(m Mem) VecVirtual, mask func(v VecVirtual)) {
		reduceBy(less, sum, func() VecVirtual { return load(at(sums)) })
		factor := func(m Mem) Op {
			if k.tail == nil {
				return m
			}
			return load(m)
		}
		d, m := scale(k)
		VMULPS(factor(at(scales)), d, d)
		VCVTDQ2PS(sum, sum)
		VMULPS(d, sum, sum)
		mask(sum)
		VADDPS(sum, k.acc, k.acc)
		if m != nil {
			VMULPS(factor(at(rounded)), m, m)
			mask(m)
			VADDPS(m, k.acc, k.acc)
		}
	}
	k.eachRow(func() {
		MOVQ(k.blocks, k.left)
		TESTQ(k.left, k.left)
		JZ(LabelRef("rest"))
		Label("group")
		together := func() { finish(red.sums(k, unpack), k.act, keep, func(VecVirtual) {}) }
		together()
		ADDQ(U32(8*size), k.src)
		ADDQ(U32(groupBytes), k.group)
		DECQ(k.left)
		JNZ(LabelRef("group"))

		Label("rest")
		XORL(number.As32(), number.As32())
		CMPQ(tail, Imm(4))
		JLT(LabelRef("singles"))
		k.four = true
		together()
		k.four = false
		ADDQ(U32(4*size), k.src)
		MOVL(U32(4), number.As32())
		Label("singles")
		CMPQ(number, tail)
		JEQ(LabelRef("total"))
		Label("single")
		k.tail = number
		place, high := GP64(), GP64()
		MOVQ(number, place)
		ANDQ(Imm(3), place)
		SHLQ(Imm(6), place)
		MOVQ(number, high)
		SHRQ(Imm(2), high)
		SHLQ(Imm(4), high)
		ADDQ(high, place)
		ADDQ(k.group, place)
		first, second := unpack(0)
		sum := red.one(first, second, func(at int) Mem { return Mem{Base: place, Disp: at} })
		other := XMM()
		VPSHUFD(Imm(0b01001110), sum.AsX(), other)
		VPADDD(other, sum.AsX(), sum.AsX())
		VPSHUFD(Imm(0b10110001), sum.AsX(), other)
		VPADDD(other, sum.AsX(), sum.AsX())
		VPBROADCASTD(sum.AsX(), sum)
		// The window onto eight words of ones between zeros lets one element through.
		window := GP64()
		LEAQ(kit.Words("window", 0, 0, 0, 0, 0, 0, 0, 0xffffffff, 0, 0, 0, 0, 0, 0, 0, 0), window)
		SHLQ(Imm(2), number)
		SUBQ(number, window)
		at := func(at int) Mem { return Mem{Base: k.group, Index: number, Scale: 1, Disp: at} }
		finish(sum, at, func(m Mem) VecVirtual {
			y := YMM()
			VBROADCASTSS(m, y)
			return y
		}, func(v VecVirtual) { VPAND(Mem{Base: window, Disp: 28}, v, v) })
		SHRQ(Imm(2), number)
		k.tail = nil
		ADDQ(U32(size), k.src)
		INCQ(number)
		CMPQ(number, tail)
		JNE(LabelRef("single"))
		Label("total")
	})
	manyRows(name, 8*size, func(k *kernel) {
		k.size = size
		red, c := r(), k.sharedPairs(c(k))
		d, m := scale(k)
		k.vectors(func() {
			sum := red.sums(k, c)
			reduceBy(less, sum, func() VecVirtual { return keep(k.act(sums)) })
			k.add(k.times(d), sum)
			if m != nil {
				product := YMM()
				VMULPS(k.act(rounded), m, product)
				VADDPS(product, k.acc, k.acc)
			}
		})
	})
}

// reduceBy subtracts less times the sums of the activation's codes.
func reduceBy(less int, sum VecVirtual, load func() VecVirtual) {
	switch {
	case less == 12: // 8 + 4
		for _, shift := range []uint64{3, 2} {
			s := load()
			VPSLLD(Imm(shift), s, s)
			VPSUBD(s, sum, sum)
		}
	case less > 0:
		s := load()
		VPSLLD(Imm(uint64(bits.TrailingZeros(uint(less)))), s, s)
		VPSUBD(s, sum, sum)
	}
}

// nibbles returns codes of sixteen bytes from at on.
func nibbles(at int, values Op) func(k *kernel) codes {
	return func(k *kernel) codes {
		low := keep(bytesOf("low_nibbles", 15))
		var table VecVirtual
		if values != nil {
			table = keep(values.(Mem))
		}
		return func(p int) (_, _ Op) {
			y := k.load(p, at)
			first, second := field(y, 0, low), field(y, 4, low)
			if values != nil {
				VPSHUFB(first, table, first)
				VPSHUFB(second, table, second)
			}
			return first, second
		}
	}
}

// fiveBits returns codes whose upper bits come before their nibbles.
func fiveBits(at int) func(k *kernel) codes {
	return func(k *kernel) codes {
		low, sixteen := keep(bytesOf("low_nibbles", 15)), keep(bytesOf("sixteen", 16))
		bit := keep(bytes32("bit_masks", func(i int) byte { return 1 << (i % 8) }))
		spread := func(bits VecVirtual, second int) VecVirtual {
			y := YMM()
			VPSHUFB(bytes32([]string{"first_bits", "second_bits"}[second], func(i int) byte { return byte(2*second + i%16/8) }), bits, y)
			VPAND(bit, y, y)
			VPCMPEQB(bit, y, y)
			VPAND(sixteen, y, y)
			return y
		}
		if level == avx512 {
			return func(p int) (_, _ Op) {
				y := k.load(p, at+4)
				first, second := field(y, 0, low), field(y, 4, low)
				VPADDB(sixteen, first, k.word(p, at), first)
				VPADDB(sixteen, second, k.word(p, at+2), second)
				return first, second
			}
		}
		return func(p int) (_, _ Op) {
			y, bits := k.load(p, at+4), k.dword(p, at)
			first, second := field(y, 0, low), field(y, 4, low)
			VPOR(spread(bits, 0), first, first)
			VPOR(spread(bits, 1), second, second)
			return first, second
		}
	}
}

// int8s returns codes that are 128 too great if they are to be unsigned.
func int8s(unsigned bool) func(k *kernel) codes {
	return func(k *kernel) codes {
		var sign VecVirtual
		if unsigned {
			sign = keep(bytesOf("signs", 0x80))
		}
		return func(p int) (_, _ Op) {
			var first, second VecVirtual
			if !k.eight() {
				first, second = k.load(p, 2), k.load(p, 18)
			} else {
				first, second = k.pair(p*k.size+2, (p+4)*k.size+2)
			}
			if unsigned {
				VPXOR(sign, first, first)
				VPXOR(sign, second, second)
			}
			return first, second
		}
	}
}

// iq4 returns the levels of IQ4_NL, so much greater.
func iq4(more int) Mem {
	return bytes32(fmt.Sprintf("iq4_values_%d", more), func(i int) byte { return byte(int(kit.IQ4[i%16]) + more) })
}

func smallBlocks() {
	words := func(n int) func() reduction { return func() reduction { return unsigned(n) } }
	four, two, wide, more := words(4), words(2), signed, 0
	if level != avx2 {
		four, two, wide, more = dots, dots, dots, 128
	}
	small("q4_0", 18, 8, half, four, nibbles(2, nil))
	small("q4_1", 20, 0, twoHalves, four, nibbles(4, nil))
	small("q5_0", 22, 16, half, two, fiveBits(2))
	small("q5_1", 24, 0, twoHalves, two, fiveBits(4))
	small("q8_0", 34, more, half, wide, int8s(more > 0))
	small("iq4_NL", 18, more, half, wide, nibbles(2, iq4(more)))
	small("mxfp4", 17, 12, exponent, two, nibbles(1, bytes32("fp4_values", func(i int) byte { return byte(kit.FP4[i%16]) + 12 })))
}
