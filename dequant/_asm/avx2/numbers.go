package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

func floats() {
	expandNumbers("f16", 2, f16)
	expandNumbers("bf16", 2, func(k *kernel) func() {
		return k.eights(func(at int, y VecVirtual) {
			VPMOVZXWD(k.From(2*at), y)
			VPSLLD(Imm(16), y, y)
		})
	})
	expandNumbers("f64", 8, func(k *kernel) func() {
		return k.fours(func(at int, y VecVirtual) {
			VCVTPD2PSY(k.From(8*at), y.AsX())
		})
	})
	expandNumbers("f8e4m3", 1, f8e4m3)
	expandNumbers("f8e5m2", 1, f8e5m2)
}

// eights returns the iteration of a kernel that makes eight elements at a time.
func (k *kernel) eights(convert func(at int, y VecVirtual)) func() {
	return func() {
		for at := 0; at < 32; at += 8 {
			y := YMM()
			convert(at, y)
			k.Store(y, at)
		}
	}
}

// fours does what eights does, for elements of eight bytes. A vector holds four, which leave their
// floats in its lower lane.
func (k *kernel) fours(convert func(at int, y VecVirtual)) func() {
	return func() {
		for at := 0; at < 32; at += 4 {
			y := YMM()
			convert(at, y)
			k.Store(y.AsX().(VecVirtual), at)
		}
	}
}

func f16(k *kernel) func() {
	return func() {
		var y [4]VecVirtual
		for i := range y {
			y[i] = YMM()
			VCVTPH2PS(k.From(16*i), y[i])
		}
		// One comparison tells whether either of two vectors has a NaN.
		nan, more := YMM(), YMM()
		VCMPPS(unordered, y[0], y[1], nan)
		VCMPPS(unordered, y[2], y[3], more)
		VORPS(nan, more, nan)
		any := GP32()
		VMOVMSKPS(nan, any)
		TESTL(any, any)
		k.Unless("nan", func() {
			for i := range y {
				carryNaN(k.From(16*i), y[i])
			}
		})
		for i := range y {
			k.Store(y[i], 8*i)
		}
	}
}

// unordered is the predicate of VCMPPS that is true if an operand is a NaN.
var unordered = Imm(3)

// carryNaN gives the NaNs among eight floats the bits of the halves that they were converted
// from, because VCVTPH2PS quiets signalling ones.
func carryNaN(halves Op, y VecVirtual) {
	nan, bits := YMM(), YMM()
	VCMPPS(unordered, y, y, nan)
	VPMOVSXWD(halves, bits)
	VPSLLD(Imm(13), bits, bits)
	VPOR(dwordsOf("exponent", 0x7f800000), bits, bits)
	VBLENDVPS(nan, bits, y, y)
}

// f8e4m3 turns a byte into the half with its bits, whose exponent is 8 too low.
func f8e4m3(k *kernel) func() {
	fields := keep(bytes32("e4m3_fields", word(0xbf80)))
	nan := keep(bytes32("e4m3_nan", word(0x7f00)))
	exponent := keep(bytes32("half_exponent", word(0x7c00)))
	bias := keep(floatsOf("e4m3_bias", 256))
	return func() {
		for at := 0; at < 32; at += 16 {
			h, special := YMM(), YMM()
			VPMOVSXBW(k.From(at), h)
			VPSLLW(Imm(7), h, h)
			VPAND(fields, h, h)
			// The one NaN becomes a half's, already quiet.
			VPADDW(h, h, special)
			VPCMPEQW(nan, special, special)
			VPAND(exponent, special, special)
			VPOR(special, h, h)
			low, high := YMM(), YMM()
			VCVTPH2PS(h.AsX(), low)
			VEXTRACTI128(Imm(1), h, h.AsX())
			VCVTPH2PS(h.AsX(), high)
			VMULPS(bias, low, low)
			VMULPS(bias, high, high)
			k.Store(low, at)
			k.Store(high, at+8)
		}
	}
}

// word returns the pattern of a constant vector of words.
func word(w uint16) func(i int) byte {
	return func(i int) byte { return byte(w >> (i % 2 * 8)) }
}

// f8e5m2 makes halves of the bytes by a zero byte below each.
func f8e5m2(k *kernel) func() {
	zero := XMM()
	VPXOR(zero, zero, zero)
	signalling := keep(bytesOf("e5m2_signalling", 0xfa))
	return func() {
		var h, y [4]VecVirtual
		for i := range y {
			h[i], y[i] = XMM(), YMM()
			if i%2 == 0 {
				VPUNPCKLBW(k.From(8*i), zero, h[i])
			} else {
				VPUNPCKHBW(k.From(8*i-8), zero, h[i])
			}
			VCVTPH2PS(h[i], y[i])
		}
		// Only 7D and FD are signalling NaNs. Doubled, both are FA.
		b, any := YMM(), GP32()
		VMOVDQU(k.From(0), b)
		VPADDB(b, b, b)
		VPCMPEQB(signalling, b, b)
		VPMOVMSKB(b, any)
		TESTL(any, any)
		k.Unless("nan", func() {
			for i := range y {
				carryNaN(h[i], y[i])
			}
		})
		for i := range y {
			k.Store(y[i], 8*i)
		}
	}
}

func integers() {
	expandNumbers("i8", 1, extended(VPMOVSXBD, 1))
	expandNumbers("u8", 1, extended(VPMOVZXBD, 1))
	expandNumbers("i16", 2, extended(VPMOVSXWD, 2))
	expandNumbers("u16", 2, extended(VPMOVZXWD, 2))
	expandNumbers("i32", 4, func(k *kernel) func() {
		return k.eights(func(at int, y VecVirtual) { VCVTDQ2PS(k.From(4*at), y) })
	})
	expandNumbers("u32", 4, u32)
	expandNumbers("i64", 8, i64)
	expandNumbers("u64", 8, u64)
	expandNumbers("bool", 1, func(k *kernel) func() {
		zero, one := YMM(), keep(floatsOf("one", 1))
		VPXOR(zero, zero, zero)
		return k.eights(func(at int, y VecVirtual) {
			VPMOVZXBD(k.From(at), y)
			VPCMPEQD(zero, y, y)
			VPANDN(one, y, y)
		})
	})
}

// extended returns the body for integers of size bytes that extend makes doublewords of.
func extended(extend func(...Op), size int) body {
	return func(k *kernel) func() {
		return k.eights(func(at int, y VecVirtual) {
			extend(k.From(size*at), y)
			VCVTDQ2PS(y, y)
		})
	}
}

// u32 sets the halves of a number into the mantissas of 2^23 and 2^39, where they keep their worth.
// Taking both powers from the upper half is exact, so only the final sum rounds.
func u32(k *kernel) func() {
	low := keep(floatsOf("two23", 1<<23))
	high := keep(floatsOf("two39", 1<<39))
	both := keep(floatsOf("two39_two23", 1<<39+1<<23))
	return k.eights(func(at int, y VecVirtual) {
		h := YMM()
		VMOVDQU(k.From(4*at), y)
		VPSRLD(Imm(16), y, h)
		VPOR(high, h, h)
		VPBLENDW(Imm(0xaa), low, y, y)
		VSUBPS(both, h, h)
		VADDPS(h, y, y)
	})
}

// u64 works as u32 does, in float64.
func u64(k *kernel) func() {
	zero, toOdd := YMM(), longRounder()
	VPXOR(zero, zero, zero)
	sum := longSum(1<<84, 1<<84+1<<52)
	return k.fours(func(at int, y VecVirtual) {
		exact := YMM()
		VMOVDQU(k.From(8*at), y)
		VPSRLQ(Imm(53), y, exact)
		VPCMPEQQ(zero, exact, exact)
		toOdd(y, exact)
		sum(y)
	})
}

// i64 adds 2^63 to make a number unsigned, and takes it away with the other powers.
func i64(k *kernel) func() {
	zero, toOdd := YMM(), longRounder()
	VPXOR(zero, zero, zero)
	bound := keep(quadwordsOf("integer_two53", 1<<53))
	sum := longSum(1<<84+1<<63, 1<<84+1<<63+1<<52)
	return k.fours(func(at int, y VecVirtual) {
		exact := YMM()
		VMOVDQU(k.From(8*at), y)
		VPADDQ(bound, y, exact)
		VPSRLQ(Imm(54), exact, exact)
		VPCMPEQQ(zero, exact, exact)
		toOdd(y, exact)
		sum(y)
	})
}

// longRounder returns a generator that makes integers representable that are not exact in float64.
// Numbers between two multiples of 2^12 become the one halfway. At 2^53 and beyond, all float32s and
// all ties between two are multiples of 2^12. So rounding to float32 is not misled.
func longRounder() func(v, exact VecVirtual) {
	below := keep(quadwordsOf("below_two11", 1<<11-1))
	return func(v, exact VecVirtual) {
		odd := YMM()
		VPAND(below, v, odd)
		VPADDQ(below, odd, odd) // carries into bit 11 if any below is set
		VPOR(v, odd, odd)
		VPANDN(odd, below, odd)
		VBLENDVPD(exact, v, odd, v)
	}
}

// longSum returns a generator that adds up the halves of integers. The sign bit of the upper half
// is flipped if high includes 2^63.
func longSum(high, both float64) func(v VecVirtual) {
	bits := func(f float64) uint64 { return math.Float64bits(f) }
	name := map[bool]string{true: "_two63"}[high > 1<<84]
	low := keep(quadwordsOf("two52", bits(1<<52)))
	upper := keep(quadwordsOf("two84"+name, bits(high)))
	powers := keep(quadwordsOf("two84"+name+"_two52", bits(both)))
	return func(v VecVirtual) {
		h := YMM()
		VPSRLQ(Imm(32), v, h)
		VPXOR(upper, h, h)
		VPBLENDD(Imm(0xaa), low, v, v)
		VSUBPD(powers, h, h)
		VADDPD(h, v, v)
		VCVTPD2PSY(v, v.AsX())
	}
}

func scaledIntegers() {
	scaled("i8Scaled", 1, VPMOVSXBD)
	scaled("i16Scaled", 2, VPMOVSXWD)
}

func scaled(name string, size int, extend func(...Op)) {
	function := kit.Begin(name, level, kit.ExpandsScale, false)
	numbers(function, size, func(k *kernel) func() {
		scale, zero := YMM(), YMM()
		VBROADCASTSS(argument("scale"), scale)
		VBROADCASTSS(argument("zero"), zero) // vet takes VPBROADCASTD's D for eight bytes
		return k.eights(func(at int, y VecVirtual) {
			extend(k.From(size*at), y)
			VPSUBD(zero, y, y)
			VCVTDQ2PS(y, y)
			VMULPS(scale, y, y)
		})
	})
	function.End()
}

// argument returns the place of a parameter.
func argument(name string) Mem {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}
