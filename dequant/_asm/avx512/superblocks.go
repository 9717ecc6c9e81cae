package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// superblocks generates the K types and IQ4_XS, with blocks of 256 elements. Types with packed
// scales start by turning them into floats in scratch memory.
func superblocks() {
	expand("q2_K", q2K)
	expand("q3_K", q3K)
	expand("q4_K", q4K)
	expand("q5_K", q5K)
	expand("q6_K", q6K)
	expand("iq4_XS", iq4XS)
	expand("q8_K", int8s(4, float))
}

// q2K looks values up, as codebookBlock does. Two bits above a code take part in the index, so
// the table is there four times.
func q2K(k *kernel) func() {
	values := floats("count2", func(n int) float32 { return float32(n & 3) })
	low4 := splat("low4", 0x0f)
	scales, mins := scratch(64), scratch(64)
	return func() {
		s, m := bytes(k.From(0)), ZMM()
		VPSRLD(U8(4), s, m)
		VPANDD(low4, s, s)
		saveScales(scales, s, half(k.From(80)))
		saveScales(mins, m, half(k.From(82)))
		for at := 0; at < 64; at += 16 {
			n := bytes(k.From(16 + at))
			for j := range 4 {
				if j > 0 {
					VPSRLD(U8(2), n, n)
				}
				group := at/32*8 + 2*j + at/16%2
				table := affine(values, scales.Offset(4*group), mins.Offset(4*group))
				VPERMPS(table, n, table)
				k.Store(table, 16*group)
			}
		}
	}
}

func q3K(k *kernel) func() {
	scales := scratch(64)
	w := newWidener(0x03, 4)
	bias := splat("thirtyTwo", 32)
	duplicate := transposedTwice()
	return func() {
		saveScales(scales, q3Scales(k, bias), half(k.From(108)))
		mask := load32(k.From(0), duplicate)
		for h := range 2 {
			codes := load32(k.From(32+32*h), duplicate)
			for pair := range 2 { // of runs of 32
				q, high := ZMM(), ZMM()
				VPROLVQ(rotations(-4*pair, -4*pair-2), codes, q)
				bit := 4*h + 2*pair
				VPROLVQ(rotations(2-bit, 1-bit), mask, high)
				w.join(q, high)
				for i := range 4 {
					group := 8*h + 4*pair + i
					z := w.widen(q, i)
					VMULPS_BCST(scales.Offset(4*group), z, z)
					k.Store(z, 16*group)
				}
			}
		}
	}
}

// q3Scales returns the sixteen 6-bit scales, less 32.
func q3Scales(k *kernel, bias reg.VecVirtual) reg.VecVirtual {
	low, high, z := XMM(), XMM(), ZMM()
	VPBROADCASTQ(k.From(96), low)
	VPSRLVD(kit.Words("q3LowShift", 0, 0, 4, 4), low, low)
	VPBROADCASTD(k.From(104), high)
	VPROLVD(kit.Words("q3HighShift", 4, 2, 0, 30), high, high)
	VPTERNLOGD(U8(selectByC), kit.Words("q3Low", repeat(4, 0x0f0f0f0f)...), high, low)
	VPANDD(kit.Words("q3Mask", repeat(4, 0x3f3f3f3f)...), low, low)
	VPMOVZXBD(low, z)
	VPSUBD(bias, z, z)
	return z
}

func q4K(k *kernel) func() {
	values := floats("count", func(n int) float32 { return float32(n) })
	spread := spreadPair()
	scales := scratch(64)
	mins := scales.Offset(32)
	return func() {
		VMOVUPS(k4Scales(k, spread), scales)
		for c := range 4 {
			low := affine(values, scales.Offset(8*c), mins.Offset(8*c))
			high := affine(values, scales.Offset(8*c+4), mins.Offset(8*c+4))
			for i := range 2 {
				at := 64*c + 16*i
				lookUpNibbles(k, k.From(16+32*c+16*i), low, high, at, at+32)
			}
		}
	}
}

func q5K(k *kernel) func() {
	w := newWidener(0x0f, 0)
	spread := spreadPair()
	duplicate := transposedTwice()
	scales := scratch(64)
	mins := scales.Offset(32)
	return func() {
		VMOVUPS(k4Scales(k, spread), scales)
		fifth := load32(k.From(16), duplicate)
		for c := range 4 {
			q, high := load32(k.From(48+32*c), duplicate), ZMM()
			VPROLVQ(rotations(0, -4), q, q)
			VPROLVQ(rotations(4-2*c, 3-2*c), fifth, high)
			w.join(q, high)
			for i := range 4 {
				at := 8*c + i>>1*4
				z := w.widen(q, i)
				VMULPS_BCST(scales.Offset(at), z, z)
				VSUBPS_BCST(mins.Offset(at), z, z)
				k.Store(z, 64*c+16*i)
			}
		}
	}
}

func q6K(k *kernel) func() {
	w := newWidener(0x0f, 32)
	once, duplicate := transposed(), transposedTwice()
	scales := scratch(64)
	return func() {
		s := ZMM()
		VPMOVSXBD(k.From(192), s)
		saveScales(scales, s, half(k.From(208)))
		for h := range 2 {
			nibbles := ZMM()
			VPERMD(k.From(64*h), once, nibbles)
			bits := load32(k.From(128+32*h), duplicate)
			for upper := range 2 {
				q, high := ZMM(), ZMM()
				if upper == 0 {
					VMOVDQA32(nibbles, q)
				} else {
					VPSRLD(U8(4), nibbles, q)
				}
				VPROLVQ(rotations(4-4*upper, 2-4*upper), bits, high)
				w.join(q, high)
				for i := range 4 {
					group := 8*h + 4*upper + i
					z := w.widen(q, i)
					VMULPS_BCST(scales.Offset(4*group), z, z)
					k.Store(z, 16*group)
				}
			}
		}
	}
}

func iq4XS(k *kernel) func() {
	values := iq4()
	lowShift, highShift := YMM(), YMM()
	VMOVDQU32(kit.Words("iq4LowShift", 0, 4, 8, 12, 16, 20, 24, 28), lowShift)
	// The upper bits lie behind the 16 bits of d and move to bit 4.
	VMOVDQU32(kit.Words("iq4HighShift", 12, 14, 16, 18, 20, 22, 24, 26), highShift)
	low4, low6, bias := splat("low4", 0x0f), splat("low6", 0x3f), splat("thirtyTwo", 32)
	scales := scratch(64)
	return func() {
		z := ZMM()
		low, high := z.AsY(), YMM()
		VPBROADCASTD(k.From(4), low)
		VPSRLVD(lowShift, low, low)
		VPBROADCASTD(k.From(0), high)
		VPSRLVD(highShift, high, high)
		VPTERNLOGD(U8(selectByC), low4.AsY(), high, low)
		VPANDD(low6.AsY(), low, low)
		VPSUBD(bias.AsY(), low, low)
		saveScales(scales, z, half(k.From(0)))
		for i := range 8 {
			table := ZMM()
			VMULPS_BCST(scales.Offset(4*i), values, table)
			lookUpNibbles(k, k.From(8+16*i), table, table, 32*i, 32*i+16)
		}
	}
}

// saveScales stores integer scales times d.
func saveScales(to Mem, scales, d reg.VecVirtual) {
	VCVTDQ2PS(scales, scales)
	VMULPS(d, scales, scales)
	VMOVUPS(scales, to)
}

// affine tabulates values × scale − min.
func affine(values reg.VecVirtual, scale, min Mem) reg.VecVirtual {
	table := ZMM()
	VMULPS_BCST(scale, values, table)
	VSUBPS_BCST(min, table, table)
	return table
}

// k4Scales returns the eight scales of Q4_K and Q5_K times d, then the eight mins times dmin.
//
// The block begins with d, dmin and twelve bytes u0, u1, u2. The first four scales and mins are the
// lower six bits of u0 and u1. The other four are a nibble of u2 under the upper two bits of u0 and
// u1.
func k4Scales(k *kernel, spread reg.VecVirtual) reg.VecVirtual {
	const none = 0x80808080
	head, rest, d, z := XMM(), XMM(), ZMM(), ZMM()
	VMOVDQU(k.From(0), head)
	VPSHUFB(kit.Words("k4High", none, 0x07060504, none, 0x0b0a0908), head, rest)
	VPSHUFB(kit.Words("k4Low", 0x07060504, 0x0f0e0d0c, 0x0b0a0908, 0x0f0e0d0c), head, head)
	VPSRLD(U8(2), rest, rest)
	VPANDD(kit.Words("k4Upper", repeat(4, 0x30303030)...), rest, rest)
	VPSRLVD(kit.Words("k4Shift", 0, 0, 0, 4), head, head)
	VPTERNLOGD(U8(aAndCOrB), kit.Words("k4Mask", 0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f), rest, head)
	VPMOVZXBD(head, z)
	VCVTDQ2PS(z, z)
	VPBROADCASTD(k.From(0), d.AsX())
	VCVTPH2PS(d.AsX(), d.AsX())
	VPERMPS(d, spread, d)
	VMULPS(d, z, z)
	return z
}

// spreadPair loads the permutation that makes eight of the first and eight of the second element.
func spreadPair() reg.VecVirtual {
	return zmm("spread", func(i int) uint32 { return uint32(i / 8) })
}

// A widener makes floats of 64 codes of a byte each. Shuffling bytes into 32-bit words stays within
// 128 bits, so the codes are transposed. Word r of lane i has codes 16r+4i to 16r+4i+3; result r
// takes its lane i from there. A code becomes the mantissa of a float at 2^23, and a subtraction
// turns it into its value.
type widener struct {
	lower, all, float, zero reg.VecVirtual
	firsts                  reg.OpmaskVirtual
	shuffles                [4]reg.VecVirtual
}

// newWidener serves codes whose bits in the mask lower come from one place, and bits above it from
// another. They count from -offset on.
func newWidener(lower uint32, offset int) *widener {
	w := &widener{
		lower:  splat(map[uint32]string{0x03: "low2s", 0x0f: "low4s"}[lower], lower*0x01010101),
		float:  splatFloat("twoTo23", 1<<23),
		firsts: K(),
	}
	switch offset {
	case 0:
		w.all, w.zero = splat("low5s", 0x1f1f1f1f), w.float
	case 4:
		w.all, w.zero = splat("low3s", 0x07070707), splatFloat("twoTo23Plus4", 1<<23+4)
	case 32:
		w.all, w.zero = splat("low6s", 0x3f3f3f3f), splatFloat("twoTo23Plus32", 1<<23+32)
	}
	first := GP64()
	MOVQ(U64(0x1111111111111111), first)
	KMOVQ(first, w.firsts)
	for r := range w.shuffles {
		w.shuffles[r] = zmm([]string{"widen0", "widen1", "widen2", "widen3"}[r], func(i int) uint32 {
			return uint32(4*r + i&3)
		})
	}
	return w
}

// join completes codes by their upper bits. Neither source is clean.
func (w *widener) join(codes, upper reg.VecVirtual) {
	VPTERNLOGD(U8(selectByC), w.lower, upper, codes)
	VPANDD(w.all, codes, codes)
}

// widen returns the r'th sixteen of the codes as floats. The first byte of each word is replaced.
func (w *widener) widen(codes reg.VecVirtual, r int) reg.VecVirtual {
	z := ZMM()
	VMOVDQA32(w.float, z)
	VPSHUFB(w.shuffles[r], codes, w.firsts, z)
	VSUBPS(w.zero, z, z)
	return z
}

// transposed loads the permutation of words that a widener wants of 64 bytes.
func transposed() reg.VecVirtual {
	return zmm("transposed", func(i int) uint32 { return uint32(i%4*4 + i/4) })
}

// transposedTwice loads the same permutation for 32 bytes that are wanted twice. They come to be
// the even and the odd 64-bit words.
func transposedTwice() reg.VecVirtual {
	return zmm("transposedTwice", func(i int) uint32 { return uint32((i%4*4 + i/4) % 8) })
}

// load32 loads and permutes 32 bytes.
func load32(from Mem, duplicate reg.VecVirtual) reg.VecVirtual {
	z := ZMM()
	VMOVDQU(from, z.AsY())
	VPERMD(z, duplicate, z)
	return z
}

// rotations returns counts for the even and the odd 64-bit words, to the left. Bits cross into
// neighbouring bytes; such bits are masked out when codes are joined.
func rotations(even, odd int) Mem {
	even, odd = even&63, odd&63
	name := fmt.Sprintf("rotate%dand%d", even, odd)
	var v []uint32
	for range 4 {
		v = append(v, uint32(even), 0, uint32(odd), 0)
	}
	return kit.Words(name, v...)
}

func repeat(n int, value uint32) []uint32 {
	v := make([]uint32, n)
	for i := range v {
		v[i] = value
	}
	return v
}
