package main

import (
	"encoding/binary"
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// Thirty-two codes, a byte each, are stored in dealt order. The lower lane of a vector has the even
// ones of eight runs of four, the upper lane the odd ones. A shuffle within lanes then makes
// doublewords of two neighbouring runs. Crossing lanes costs one instruction for thirty-two
// elements.
//
// The shuffle puts a code into the top byte of its doubleword. This extends the sign of a signed
// code, and the conversion gives the code times 2^24. The scale has 2^-24 in it. Both are exact,
// because no scale that comes from a half gets near float32's subnormals. The product is thus
// rounded as the product of code and scale.

// perRun returns a vector constant with one doubleword for each run in dealt order.
func perRun(name string, f func(run int) uint32) Mem {
	return dwords(name, func(i int) uint32 { return f(2*(i%4) + i/4) })
}

// A widener turns dealt codes into scaled floats.
type widener struct {
	k       *kernel
	shuffle [4]VecVirtual
}

func newWidener(k *kernel) widener {
	w := widener{k: k}
	for i := range w.shuffle {
		w.shuffle[i] = keep(bytes32(fmt.Sprint("widen", i), func(b int) byte {
			if b%4 == 3 {
				return byte(4*i + b%16/4)
			}
			return 0x80
		}))
	}
	return w
}

// eight returns codes 8i to 8i+7 times 2^24.
func (w *widener) eight(codes VecVirtual, i int) VecVirtual {
	y := YMM()
	VPSHUFB(w.shuffle[i], codes, y)
	return y
}

// A scaling multiplies codes by d, and then adds or subtracts m if there is one.
type scaling struct {
	d, m VecVirtual
	add  func(...Op)
}

func times(d VecVirtual) scaling    { return scaling{d: d} }
func plus(d, m VecVirtual) scaling  { return scaling{d, m, VADDPS} }
func minus(d, m VecVirtual) scaling { return scaling{d, m, VSUBPS} }

// store scales thirty-two codes, all alike or sixteen each. It stores them as elements from at on.
func (w *widener) store(codes VecVirtual, at int, s ...scaling) {
	for i := range 4 {
		y, how := w.eight(codes, i), s[i*len(s)/4]
		VCVTDQ2PS(y, y)
		VMULPS(how.d, y, y)
		if how.add != nil {
			how.add(how.m, y, y)
		}
		w.k.Store(y, at+8*i)
	}
}

// forCodes divides a scale by the 2^24 that widening puts into codes.
func forCodes(d VecVirtual) VecVirtual {
	VMULPS(floatsOf("code_unit", 0x1p-24), d, d)
	return d
}

// half loads a binary16 into all elements.
func half(m Mem) VecVirtual {
	x, y := XMM(), YMM()
	VPBROADCASTW(m, x)
	VCVTPH2PS(x, y)
	return y
}

// float loads a binary32 into all elements.
func float(m Mem) VecVirtual {
	y := YMM()
	VBROADCASTSS(m, y)
	return y
}

// twoHalves loads two binary16s that lie side by side, each into all elements.
func twoHalves(m Mem) (first, second VecVirtual) {
	x, y := XMM(), YMM()
	first, second = YMM(), YMM()
	VPBROADCASTD(m, x)
	VCVTPH2PS(x, y)
	VMOVSLDUP(y, first)
	VMOVSHDUP(y, second)
	return first, second
}

// A nibbler unpacks 16 bytes of nibbles, all low ones first, into dealt order.
type nibbler struct{ deal, shift, low VecVirtual }

func newNibbler() nibbler {
	return nibbler{
		deal:  keep(perRun("deal_nibbles", func(run int) uint32 { return 0x03020100 + 0x04040404*uint32(run%4) })),
		shift: keep(dwords("nibble_shifts", func(i int) uint32 { return []uint32{0, 0, 4, 0}[i%4] })),
		low:   keep(bytesOf("low_nibbles", 15)),
	}
}

func (n *nibbler) unpack(m Mem) VecVirtual {
	y := YMM()
	VBROADCASTI128(m, y)
	VPSHUFB(n.deal, y, y)
	VPSRLVQ(n.shift, y, y)
	VPAND(n.low, y, y)
	return y
}

func blocks() {
	expand("q8_0", int8s(2, half))
	expand("q8_1", int8s(4, half))
	expand("q4_0", func(k *kernel) func() {
		w, n := newWidener(k), newNibbler()
		eight := keep(bytesOf("eight", 8))
		return func() {
			q := n.unpack(k.From(2))
			VPSUBB(eight, q, q)
			w.store(q, 0, times(forCodes(half(k.From(0)))))
		}
	})
	expand("iq4_NL", func(k *kernel) func() {
		w, n := newWidener(k), newNibbler()
		values := keep(iq4Values())
		return func() {
			q := n.unpack(k.From(2))
			VPSHUFB(q, values, q)
			w.store(q, 0, times(forCodes(half(k.From(0)))))
		}
	})
	expand("mxfp4", mxfp4)
	expand("nvfp4", nvfp4)
	expand("aprQ4", aprQ4)
	expand("q4_1", func(k *kernel) func() {
		w, n := newWidener(k), newNibbler()
		return func() {
			q := n.unpack(k.From(4))
			d, m := twoHalves(k.From(0))
			w.store(q, 0, plus(forCodes(d), m))
		}
	})
	expand("q5_0", func(k *kernel) func() {
		w, n := newWidener(k), newNibbler()
		set, sixteen := fifthBits(), keep(bytesOf("minus_sixteen", 0xf0))
		return func() {
			q, bits := n.unpack(k.From(6)), set(k.From(2))
			VPANDN(sixteen, bits, bits)
			VPOR(bits, q, q)
			w.store(q, 0, times(forCodes(half(k.From(0)))))
		}
	})
	expand("q5_1", func(k *kernel) func() {
		w, n := newWidener(k), newNibbler()
		set, sixteen := fifthBits(), keep(bytesOf("sixteen", 16))
		return func() {
			q, bits := n.unpack(k.From(8)), set(k.From(4))
			VPAND(sixteen, bits, bits)
			VPOR(bits, q, q)
			d, m := twoHalves(k.From(0))
			w.store(q, 0, plus(forCodes(d), m))
		}
	})
}

// int8s returns the body for blocks of a scale and, from byte at on, int8s.
func int8s(at int, scale func(Mem) VecVirtual) body {
	return func(k *kernel) func() {
		return func() {
			d := scale(k.From(0))
			for i := 0; i < k.Elems; i += 8 {
				y := YMM()
				VPMOVSXBD(k.From(at+i), y)
				VCVTDQ2PS(y, y)
				VMULPS(d, y, y)
				k.Store(y, i)
			}
		}
	}
}

// fifthBits returns a generator of bytes in dealt order. They are all ones if their bit of a
// doubleword in memory is set.
func fifthBits() func(m Mem) VecVirtual {
	deal := keep(perRun("deal_bits", func(run int) uint32 { return 0x01010101 * uint32(run/2) }))
	bit := keep(perRun("bit_masks", func(run int) uint32 { return 0x08040201 << (run % 2 * 4) }))
	return func(m Mem) VecVirtual {
		y := YMM()
		VPBROADCASTD(m, y)
		VPSHUFB(deal, y, y)
		VPAND(bit, y, y)
		VPCMPEQB(bit, y, y)
		return y
	}
}

// iq4Values returns the codebook of IQ4_NL and IQ4_XS, in both lanes.
func iq4Values() Mem {
	return bytes32("iq4_values", func(i int) byte { return byte(kit.IQ4[i%16]) })
}

// mxfp4 shifts its codes down before it converts them: its scales reach into the subnormals and
// cannot be multiplied by 2^-24.
func mxfp4(k *kernel) func() {
	w, n := newWidener(k), newNibbler()
	values := keep(fp4Values())
	scales := GP64()
	LEAQ(e8m0Halves(), scales)
	return func() {
		q := n.unpack(k.From(1))
		VPSHUFB(q, values, q)
		e, d := GP32(), YMM()
		MOVBLZX(k.From(0), e)
		VBROADCASTSS(Mem{Base: scales, Index: e.As64(), Scale: 4}, d)
		for i := range 4 {
			y := w.eight(q, i)
			VPSRAD(Imm(24), y, y)
			VCVTDQ2PS(y, y)
			VMULPS(d, y, y)
			k.Store(y, 8*i)
		}
	}
}

// fp4Values returns the codebook of MXFP4 and NVFP4, in both lanes.
func fp4Values() Mem {
	return bytes32("fp4_values", func(i int) byte { return byte(kit.FP4[i%16]) })
}

// e8m0Halves returns the values of e8m0Half for all bytes.
func e8m0Halves() Mem {
	var b []byte
	for e := range 256 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(math.Ldexp(1, e-128))))
	}
	return kit.Data("e8m0_halves", b)
}

// nvfp4 reads eight bytes of nibbles for each scale: eight elements in the lower ones, eight in the
// upper ones.
func nvfp4(k *kernel) func() {
	w, deal := newWidener(k), newDealer()
	values, low, scales := keep(fp4Values()), keep(bytesOf("low_nibbles", 15)), fourByteScales()
	return func() {
		d, qs := scales(k.From(0)), deal.load(k.From(4))
		lows, highs := field(qs, 0, 0, low), field(qs, 4, 0, low)
		VPSHUFB(lows, values, lows)
		VPSHUFB(highs, values, highs)
		for i := range 4 {
			scale := YMM()
			VPERMILPS(Imm(uint64(i*0b01010101)), d, scale)
			for j, codes := range []VecVirtual{lows, highs} {
				y := w.eight(codes, i)
				VCVTDQ2PS(y, y)
				VMULPS(scale, y, y)
				k.Store(y, 16*i+8*j)
			}
		}
	}
}

// fourByteScales returns a generator that converts four bytes as ue4m3Half does, into each lane.
// Exponent and mantissa in a binary16's place make 2^-7 of the value. The 2^24 that widening puts
// into codes is taken away too.
func fourByteScales() func(m Mem) VecVirtual {
	zero, fields := keep(bytesOf("ue4m3_zero", 0x7f)), keep(bytes32("ue4m3_fields", word(0x3f80)))
	scale := keep(floatsOf("ue4m3_unit", 0x1p-17))
	return func(m Mem) VecVirtual {
		b, isZero, y := XMM(), XMM(), YMM()
		VPBROADCASTD(m, b)
		VPCMPEQB(zero.AsX(), b, isZero)
		VPANDN(b, isZero, b)
		VPMOVZXBW(b, b)
		VPSLLW(Imm(7), b, b)
		VPAND(fields.AsX(), b, b)
		VCVTPH2PS(b, y)
		VMULPS(scale, y, y)
		return y
	}
}

// aprQ4 reads neighbours in one byte.
func aprQ4(k *kernel) func() {
	shift := keep(downward())
	low, eight := keep(dwordsOf("fifteen", 15)), keep(dwordsOf("eights", 8))
	one, upper := keep(bytes32("half_exponent_one", word(0x0400))), keep(bytes32("half_exponent_upper", word(0x7800)))
	none := XMM()
	VPXOR(none, none, none)
	return func() {
		h, exponent, d := XMM(), XMM(), YMM()
		VPBROADCASTW(k.From(0), h)
		// Of 0 and 31 one more has none of the upper four bits of an exponent.
		VPADDW(one.AsX(), h, exponent)
		VPAND(upper.AsX(), exponent, exponent)
		VPCMPEQW(none, exponent, exponent)
		VPANDN(h, exponent, h)
		VCVTPH2PS(h, d)
		for i := range 4 {
			y := YMM()
			VPBROADCASTD(k.From(2+4*i), y)
			VPSRLVD(shift, y, y)
			VPAND(low, y, y)
			VPSUBD(eight, y, y)
			VCVTDQ2PS(y, y)
			VMULPS(d, y, y)
			k.Store(y, 8*i)
		}
	}
}
