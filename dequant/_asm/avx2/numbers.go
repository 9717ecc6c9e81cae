package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func floats() {
	expand("f16AVX2", "f16Generic", numbers(2), f16)
	expand("bf16AVX2", "bf16Generic", numbers(2), eights(func(k *kernel, at int, y VecVirtual) {
		VPMOVZXWD(k.in(2*at), y)
		VPSLLD(Imm(16), y, y)
	}))
	expand("f64AVX2", "f64Generic", numbers(8), func(k *kernel) func() {
		return func() {
			for i := 0; i < 32; i += 4 {
				x := XMM()
				VCVTPD2PSY(k.in(8*i), x)
				k.store(x, i)
			}
		}
	})
	expand("f8e4m3AVX2", "f8e4m3Generic", numbers(1), f8e4m3)
	expand("f8e5m2AVX2", "f8e5m2Generic", numbers(1), f8e5m2)
}

// eights is the body of a conversion that handles eight elements on their own.
func eights(convert func(k *kernel, at int, y VecVirtual)) body {
	return func(k *kernel) func() {
		return func() {
			for i := 0; i < 32; i += 8 {
				y := YMM()
				convert(k, i, y)
				k.store(y, i)
			}
		}
	}
}

func f16(k *kernel) func() {
	return func() {
		var y [4]VecVirtual
		for i := range y {
			y[i] = YMM()
			VCVTPH2PS(k.in(16*i), y[i])
		}
		// One comparison tells whether either of two vectors has a NaN.
		nan, more := YMM(), YMM()
		VCMPPS(unordered, y[0], y[1], nan)
		VCMPPS(unordered, y[2], y[3], more)
		VORPS(nan, more, nan)
		any := GP32()
		VMOVMSKPS(nan, any)
		TESTL(any, any)
		k.unless("nan", func() {
			for i := range y {
				carryNaN(k.in(16*i), y[i])
			}
		})
		for i := range y {
			k.store(y[i], 8*i)
		}
	}
}

// unordered is the predicate of VCMPPS that is true where an operand is a NaN.
var unordered = Imm(3)

// unless branches to code after the loop, and back, if the zero flag is clear.
func (k *kernel) unless(label string, f func()) {
	JNE(LabelRef(label))
	Label(label + "_done")
	k.rare = append(k.rare, func() {
		Label(label)
		f()
		JMP(LabelRef(label + "_done"))
	})
}

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
			VPMOVSXBW(k.in(at), h)
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
			k.store(low, at)
			k.store(high, at+8)
		}
	}
}

// word is the pattern of a constant vector of words.
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
				VPUNPCKLBW(k.in(8*i), zero, h[i])
			} else {
				VPUNPCKHBW(k.in(8*i-8), zero, h[i])
			}
			VCVTPH2PS(h[i], y[i])
		}
		// Only 7D and FD are signalling NaNs. Doubled, both are FA.
		b, any := YMM(), GP32()
		VMOVDQU(k.in(0), b)
		VPADDB(b, b, b)
		VPCMPEQB(signalling, b, b)
		VPMOVMSKB(b, any)
		TESTL(any, any)
		k.unless("nan", func() {
			for i := range y {
				carryNaN(h[i], y[i])
			}
		})
		for i := range y {
			k.store(y[i], 8*i)
		}
	}
}

func integers() {
	expand("i8AVX2", "i8Generic", numbers(1), eights(func(k *kernel, at int, y VecVirtual) {
		VPMOVSXBD(k.in(at), y)
		VCVTDQ2PS(y, y)
	}))
	expand("u8AVX2", "u8Generic", numbers(1), eights(func(k *kernel, at int, y VecVirtual) {
		VPMOVZXBD(k.in(at), y)
		VCVTDQ2PS(y, y)
	}))
	expand("i16AVX2", "i16Generic", numbers(2), eights(func(k *kernel, at int, y VecVirtual) {
		VPMOVSXWD(k.in(2*at), y)
		VCVTDQ2PS(y, y)
	}))
	expand("u16AVX2", "u16Generic", numbers(2), eights(func(k *kernel, at int, y VecVirtual) {
		VPMOVZXWD(k.in(2*at), y)
		VCVTDQ2PS(y, y)
	}))
	expand("i32AVX2", "i32Generic", numbers(4), eights(func(k *kernel, at int, y VecVirtual) {
		VCVTDQ2PS(k.in(4*at), y)
	}))
	expand("u32AVX2", "u32Generic", numbers(4), u32)
	expand("boolAVX2", "boolGeneric", numbers(1), func(k *kernel) func() {
		zero, one := YMM(), keep(floatsOf("one", 1))
		VPXOR(zero, zero, zero)
		return eights(func(k *kernel, at int, y VecVirtual) {
			VPMOVZXBD(k.in(at), y)
			VPCMPEQD(zero, y, y)
			VPANDN(one, y, y)
		})(k)
	})
}

// u32 sets the halves of a number into the mantissas of 2^23 and 2^39, where they count as
// what they are worth. Taking both powers from the upper half is exact, so that only the
// final sum rounds.
func u32(k *kernel) func() {
	low := keep(floatsOf("two23", 1<<23))
	high := keep(floatsOf("two39", 1<<39))
	both := keep(floatsOf("two39_two23", 1<<39+1<<23))
	return eights(func(k *kernel, at int, y VecVirtual) {
		h := YMM()
		VMOVDQU(k.in(4*at), y)
		VPSRLD(Imm(16), y, h)
		VPOR(high, h, h)
		VPBLENDW(Imm(0xaa), low, y, y)
		VSUBPS(both, h, h)
		VADDPS(h, y, y)
	})(k)
}

func scaledIntegers() {
	scaled("i8ScaledAVX2", "i8ScaledGeneric", 1, VPMOVSXBD)
	scaled("i16ScaledAVX2", "i16ScaledGeneric", 2, VPMOVSXWD)
}

func scaled(name, generic string, size int, load func(...Op)) {
	s := numbers(size)
	k := &kernel{floats: "dst", inBlock: s.size, outBlock: 4 * s.elems}
	signature := "func(dst []float32, src []byte, scale float32, zero int32)"
	k.function(name, " is "+generic+".", signature, s, func(k *kernel) func() {
		scale, zero := YMM(), YMM()
		VBROADCASTSS(argument("scale"), scale)
		VBROADCASTSS(argument("zero"), zero) // vet takes VPBROADCASTD's D for eight bytes
		return eights(func(k *kernel, at int, y VecVirtual) {
			load(k.in(size*at), y)
			VPSUBD(zero, y, y)
			VCVTDQ2PS(y, y)
			VMULPS(scale, y, y)
		})(k)
	})
}

// argument is where the caller put a parameter.
func argument(name string) Mem {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}
