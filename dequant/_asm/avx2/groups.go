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

// An unpacker loads constants, and returns the generator of 32 elements, eight at a time: their
// values before the scale.
type unpacker func(k *kernel) func(put func(y VecVirtual, at int))

// A formula makes values of eight codes' values, in place.
type formula func(y VecVirtual, scale, offset Op)

func subtractAndScale(y VecVirtual, scale, offset Op) {
	VSUBPS(offset, y, y)
	VMULPS(scale, y, y)
}

func scaleAndAdd(y VecVirtual, scale, offset Op) {
	VMULPS(scale, y, y)
	VADDPS(offset, y, y)
}

// scale serves codes that have no offsets.
func scale(y VecVirtual, scale, _ Op) { VMULPS(scale, y, y) }

func scaleBy127(y VecVirtual, scale, _ Op) {
	VMULPS(scale, y, y)
	VMULPS(floatsOf("by_127", float32(1)/127), y, y)
}

func groups() {
	for bits := 1; bits <= 8; bits++ {
		u := integersOf(bits)
		grouped(fmt.Sprintf("uint%dGroups", bits), bits, bits == 4, u, subtractAndScale)
		grouped(fmt.Sprintf("uint%dBiasedGroups", bits), bits, bits == 4, u, scaleAndAdd)
	}
	grouped("int8Groups", 8, false, extendedGroups(VPMOVSXBD), subtractAndScale)
	grouped("int8By127Groups", 8, false, extendedGroups(VPMOVSXBD), scaleBy127)
	grouped("e4m3Groups", 8, false, e4m3Groups, scale)
	grouped("e5m2Groups", 8, false, e5m2Groups, scale)
	grouped("e2m1PlusGroups", 4, true, tabled("e2m1_plus", kit.E2M1, false), scale)
	grouped("e2m1Groups", 4, true, tabled("e2m1", kit.MinusZero(kit.E2M1), false), scale)
	grouped("nf4Groups", 4, false, tabled("nf4", kit.NF4, true), scale)
	grouped("fp4Groups", 4, false, tabled("bnb_fp4", kit.MinusZero(kit.BnbFP4), true), scale)
}

// grouped generates both variants for a code. With pairs, it takes groups of 16 too.
func grouped(name string, bits int, pairs bool, u unpacker, f formula) {
	kit.Groups(name, level, bits, pairs, func(kk *kit.Kernel) func(scale, offset func(at int) Mem) func() {
		k := &kernel{kk}
		unpack := u(k)
		return func(scale, offset func(at int) Mem) func() {
			var s, o [2]VecVirtual
			for i := range s {
				if i > 0 && scale(16) == scale(0) {
					s[i], o[i] = s[0], o[0]
					continue
				}
				s[i], o[i] = float(scale(16*i)), float(offset(16*i))
			}
			return func() {
				unpack(func(y VecVirtual, at int) {
					f(y, s[at/16], o[at/16])
					k.Store(y, at)
				})
			}
		}
	})
}

// integersOf unpacks unsigned integers that lie without gaps.
func integersOf(bits int) unpacker {
	if bits == 8 {
		return extendedGroups(VPMOVZXBD)
	}
	return func(k *kernel) func(put func(y VecVirtual, at int)) {
		mask := keep(dwordsOf(fmt.Sprint("low_bits_", bits), 1<<bits-1))
		// Eight codes of up to four bits fill a doubleword at most; a shift for each suffices if
		// they do not leave it. The bytes of wider ones come into their doublewords first.
		if 8%bits == 0 {
			return func(put func(y VecVirtual, at int)) {
				for at := 0; at < 32; at += 8 {
					first := at * bits % 32
					y := YMM()
					VPBROADCASTD(k.From(at*bits/32*4), y)
					VPSRLVD(dwords(fmt.Sprintf("shifts_%d_%d", bits, first), func(i int) uint32 { return uint32(first + i*bits) }), y, y)
					VPAND(mask, y, y)
					VCVTDQ2PS(y, y)
					put(y, at)
				}
			}
		}
		return func(put func(y VecVirtual, at int)) {
			for at := 0; at < 32; at += 8 {
				// A window of 16 bytes or, if there are fewer, of 8 holds the eight codes.
				first, window := at*bits/8, 16
				if 4*bits < 16 {
					window = 8
				}
				from := min(first, 4*bits-window)
				y := YMM()
				if window == 16 {
					VBROADCASTI128(k.From(from), y)
				} else {
					VPBROADCASTQ(k.From(from), y)
				}
				place := func(i int) int { return 8*(first-from) + i*bits }
				VPSHUFB(bytes32(fmt.Sprintf("pairs_%d_%d", bits, first-from), func(i int) byte {
					if i%4 > 1 {
						return 0x80
					}
					at := place(i/4)/8 + i%4
					if i%4 == 1 && place(i/4)%8+bits <= 8 {
						return 0x80 // perhaps beyond the window, and not needed
					}
					return byte(at)
				}), y, y)
				VPSRLVD(dwords(fmt.Sprintf("pair_bits_%d", bits), func(i int) uint32 { return uint32(i * bits % 8) }), y, y)
				VPAND(mask, y, y)
				VCVTDQ2PS(y, y)
				put(y, at)
			}
		}
	}
}

// extendedGroups unpacks bytes that extend makes doublewords of.
func extendedGroups(extend func(...Op)) unpacker {
	return func(k *kernel) func(put func(y VecVirtual, at int)) {
		return func(put func(y VecVirtual, at int)) {
			for at := 0; at < 32; at += 8 {
				y := YMM()
				extend(k.From(at), y)
				VCVTDQ2PS(y, y)
				put(y, at)
			}
		}
	}
}

// e5m2Groups makes halves of the bytes by a zero byte below each. Products quiet NaNs anyway.
func e5m2Groups(k *kernel) func(put func(y VecVirtual, at int)) {
	zero := XMM()
	VPXOR(zero, zero, zero)
	return func(put func(y VecVirtual, at int)) {
		for at := 0; at < 32; at += 8 {
			h, y := XMM(), YMM()
			VMOVQ(k.From(at), h)
			VPUNPCKLBW(h, zero, h)
			VCVTPH2PS(h, y)
			put(y, at)
		}
	}
}

// e4m3Groups makes the upper half of a float from a byte: the bits of normal numbers fit in place, and
// their exponents are 120 too low. Zeros, subnormal numbers and NaNs are rare, and take the way by
// halves that f8e4m3 takes.
func e4m3Groups(k *kernel) func(put func(y VecVirtual, at int)) {
	fields, bias := keep(dwordsOf("e4m3_upper_fields", 0x87f00000)), keep(dwordsOf("e4m3_upper_bias", 120<<23))
	least, most := keep(bytesOf("e4m3_least_normal_doubled", 0x10)), keep(bytesOf("e4m3_normals_doubled", 0xfc-0x10))
	return func(put func(y VecVirtual, at int)) {
		var y [4]VecVirtual
		odd := YMM()
		VMOVDQU(k.From(0), odd)
		VPADDB(odd, odd, odd)
		VPSUBB(least, odd, odd)
		VPSUBUSB(most, odd, odd)
		for i := range y {
			y[i] = YMM()
			VPMOVSXBD(k.From(8*i), y[i])
			VPSLLD(Imm(20), y[i], y[i])
			VPAND(fields, y[i], y[i])
			VPADDD(bias, y[i], y[i])
		}
		VPTEST(odd, odd)
		k.Unless("odd", func() {
			for i, v := range y {
				m := YMM()
				VPMOVSXBD(k.From(8*i), m)
				VPADDD(m, m, m)
				VPAND(dwordsOf("low_byte", 0xff), m, m)
				VPCMPEQD(dwordsOf("e4m3_nan_doubled", 0xfe), m, m)
				VPMOVSXBW(k.From(8*i), v.AsX())
				VPSLLW(Imm(7), v.AsX(), v.AsX())
				VPAND(bytes32("e4m3_fields", word(0xbf80)), v.AsX(), v.AsX())
				VCVTPH2PS(v.AsX(), v)
				VMULPS(floatsOf("e4m3_bias", 256), v, v)
				VPOR(m, v, v)
			}
		})
		for i, v := range y {
			put(v, 8*i)
		}
	}
}

// tabled looks up the four bytes of a float by the codes of 32 nibbles, in dealt order.
func tabled(name string, values [16]float32, highFirst bool) unpacker {
	return func(k *kernel) func(put func(y VecVirtual, at int)) {
		var planes [4]VecVirtual
		for p := range planes {
			plane, any := make([]byte, 32), false
			for i := range plane {
				var bits [4]byte
				binary.LittleEndian.PutUint32(bits[:], math.Float32bits(values[i%16]))
				plane[i] = bits[p]
				any = any || bits[p] != 0
			}
			if any {
				planes[p] = keep(kit.Data(fmt.Sprintf("%s_byte_%d", name, p), plane))
			}
		}
		// Constants stay in memory where an instruction takes them from there: registers are few.
		low := bytesOf("low_nibbles", 15)
		// Bytes take their places in words, where a shift moves the second nibble.
		first := 0
		if highFirst {
			first = 1
		}
		deal := bytes32(fmt.Sprint("deal_neighbours_", first), func(i int) byte {
			if i%2 != first {
				return 0x80
			}
			run := i%16/4*2 + i/16 // of four elements, two bytes
			return byte(2*run + i%4/2)
		})
		var zero VecVirtual
		if planes[0] == nil {
			zero = YMM()
			VPXOR(zero, zero, zero)
		}
		return func(put func(y VecVirtual, at int)) {
			q, t := YMM(), YMM()
			VBROADCASTI128(k.From(0), q)
			VPSHUFB(deal, q, q)
			if highFirst {
				VPSRLW(Imm(12), q, t)
			} else {
				VPSLLW(Imm(4), q, t)
			}
			VPOR(t, q, q)
			VPAND(low, q, q)
			lookUp := func(p int) VecVirtual {
				if planes[p] == nil {
					return zero
				}
				y := YMM()
				VPSHUFB(q, planes[p], y)
				return y
			}
			join := func(unpack func(...Op), low, high VecVirtual) VecVirtual {
				if low == zero && high == zero {
					return zero
				}
				y := YMM()
				unpack(high, low, y)
				return y
			}
			var b [4]VecVirtual
			for p := range b {
				b[p] = lookUp(p)
			}
			for i, bytes := range []func(...Op){VPUNPCKLBW, VPUNPCKHBW} {
				lower, upper := join(bytes, b[0], b[1]), join(bytes, b[2], b[3])
				for j, words := range []func(...Op){VPUNPCKLWD, VPUNPCKHWD} {
					put(join(words, lower, upper), 16*i+8*j)
				}
			}
		}
	}
}
