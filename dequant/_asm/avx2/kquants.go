package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The K types but Q8_K, and IQ4_XS, first make all scales of a block, eight at a time. The scales
// are left on the stack: from there a broadcast is a load and costs no shuffle.

func superBlocks() {
	expand("q2_K", q2K)
	expand("q3_K", q3K)
	expand("q4_K", q4K)
	expand("q5_K", q5K)
	expand("q6_K", q6K)
	expand("iq4_XS", iq4XS)
	expand("q8_K", int8s(4, float))
}

// A dealer loads 32 bytes into dealt order.
type dealer struct{ order VecVirtual }

func newDealer() dealer {
	return dealer{keep(perRun("deal", func(run int) uint32 { return uint32(run) }))}
}

func (d *dealer) load(m Mem) VecVirtual {
	y := YMM()
	VPERMD(m, d.order, y)
	return y
}

// field moves bits of bytes from position from to position to, and masks them. Bits that
// cross into the neighbouring byte fall to the mask.
func field(bytes VecVirtual, from, to int, mask Op) VecVirtual {
	y := YMM()
	switch {
	case from > to:
		VPSRLW(Imm(uint64(from-to)), bytes, y)
		bytes = y
	case from < to:
		VPSLLW(Imm(uint64(to-from)), bytes, y)
		bytes = y
	}
	VPAND(mask, bytes, y)
	return y
}

// A row holds float32s on the stack, one for every run of codes that shares a scale.
type row struct{ at Mem }

// newRow returns a row of n numbers.
func newRow(n int) row { return row{AllocLocal(4 * n)} }

// put sets numbers 8i to 8i+7 to eight integers times unit.
func (r row) put(i int, integers, unit VecVirtual) {
	VCVTDQ2PS(integers, integers)
	VMULPS(unit, integers, integers)
	VMOVUPS(integers, r.at.Offset(32*i))
}

// get loads number i into all elements.
func (r row) get(i int) VecVirtual {
	y := YMM()
	VBROADCASTSS(r.at.Offset(4*i), y)
	return y
}

// dwordsOfBytes returns the sixteen bytes of x as doublewords.
func dwordsOfBytes(extend func(...Op), x VecVirtual) [2]VecVirtual {
	low, high, upper := YMM(), YMM(), XMM()
	extend(x, low)
	VPSRLDQ(Imm(8), x, upper)
	extend(upper, high)
	return [2]VecVirtual{low, high}
}

func q2K(k *kernel) func() {
	w, deal, three := newWidener(k), newDealer(), keep(bytesOf("three", 3))
	scales, mins := newRow(16), newRow(16)
	low := bytesOf("low_nibbles", 15)
	return func() {
		d, dmin := twoHalves(k.From(80))
		forCodes(d)
		packed := XMM()
		VMOVDQU(k.From(0), packed)
		lows, highs := XMM(), XMM()
		VPAND(low, packed, lows)
		VPSRLW(Imm(4), packed, highs)
		VPAND(low, highs, highs)
		for i, y := range dwordsOfBytes(VPMOVZXBD, lows) {
			scales.put(i, y, d)
		}
		for i, y := range dwordsOfBytes(VPMOVZXBD, highs) {
			mins.put(i, y, dmin)
		}
		for h := range 2 {
			qs := deal.load(k.From(16 + 32*h))
			for j := range 4 {
				q := field(qs, 2*j, 0, three)
				run := 8*h + 2*j
				w.store(q, 16*run, minus(scales.get(run), mins.get(run)), minus(scales.get(run+1), mins.get(run+1)))
			}
		}
	}
}

func q3K(k *kernel) func() {
	w, deal, three, four := newWidener(k), newDealer(), keep(bytesOf("three", 3)), keep(bytesOf("four", 4))
	scales := newRow(16)
	return func() {
		d := forCodes(half(k.From(108)))
		for i, y := range dwordsOfBytes(VPMOVSXBD, q3Scales(k.From(94))) {
			scales.put(i, y, d)
		}
		mask := deal.load(k.From(0))
		for h := range 2 {
			qs := deal.load(k.From(32 + 32*h))
			for j := range 4 {
				q, bit := field(qs, 2*j, 0, three), field(mask, 4*h+j, 2, four)
				VPOR(bit, q, q)
				VPSUBB(four, q, q)
				run := 8*h + 2*j
				w.store(q, 16*run, times(scales.get(run)), times(scales.get(run+1)))
			}
		}
	}
}

// q3Scales unpacks the sixteen scales of Q3_K. They begin two bytes after m, so that sixteen can be
// loaded without leaving the block.
func q3Scales(m Mem) VecVirtual {
	packed, lows, highs := XMM(), XMM(), XMM()
	VMOVDQU(m, packed)
	VPSHUFB(bytes32("q3_low", func(i int) byte { return byte(2 + i%8) }), packed, lows)
	VPSRLVQ(dwords("q3_low_shifts", func(i int) uint32 { return []uint32{0, 0, 4, 0}[i%4] }), lows, lows)
	VPAND(bytesOf("low_nibbles", 15), lows, lows)
	VPSHUFB(bytes32("q3_high", func(i int) byte { return byte(10 + i%4) }), packed, highs)
	VPSRLVD(dwords("q3_high_shifts", func(i int) uint32 { return uint32(2 * (i % 4)) }), highs, highs)
	VPAND(bytesOf("three", 3), highs, highs)
	VPSLLW(Imm(4), highs, highs)
	VPOR(lows, highs, highs)
	VPSUBB(bytesOf("thirty_two", 32), highs, highs)
	return highs
}

func q4K(k *kernel) func() {
	w, deal, low := newWidener(k), newDealer(), keep(bytesOf("low_nibbles", 15))
	scales, mins := newRow(8), newRow(8)
	return func() {
		k4Scales(k, scales, mins)
		for c := range 4 {
			qs := deal.load(k.From(16 + 32*c))
			for i := range 2 {
				run := 2*c + i
				q := field(qs, 4*i, 0, low)
				w.store(q, 32*run, minus(scales.get(run), mins.get(run)))
			}
		}
	}
}

func q5K(k *kernel) func() {
	w, deal, low := newWidener(k), newDealer(), keep(bytesOf("low_nibbles", 15))
	sixteen := keep(bytesOf("sixteen", 16))
	scales, mins := newRow(8), newRow(8)
	return func() {
		k4Scales(k, scales, mins)
		high := deal.load(k.From(16))
		for c := range 4 {
			qs := deal.load(k.From(48 + 32*c))
			for i := range 2 {
				run := 2*c + i
				q, bit := field(qs, 4*i, 0, low), field(high, run, 4, sixteen)
				VPOR(bit, q, q)
				w.store(q, 32*run, minus(scales.get(run), mins.get(run)))
			}
		}
	}
}

// k4Scales makes the eight scales and mins of Q4_K and Q5_K. Their blocks begin with d, dmin
// and three doublewords of six-bit numbers: sixteen bytes.
func k4Scales(k *kernel, scales, mins row) {
	d, dmin := twoHalves(k.From(0))
	forCodes(d)
	packed, s, upper := XMM(), XMM(), XMM()
	VMOVDQU(k.From(0), packed)
	// Doublewords: scales 0 to 3, scales 4 to 7, mins 0 to 3, mins 4 to 7, less the upper bits ...
	VPSHUFD(Imm(1|3<<2|2<<4|3<<6), packed, s)
	VPSRLVD(dwords("k4_shifts", func(i int) uint32 { return []uint32{0, 0, 0, 4}[i%4] }), s, s)
	VPAND(dwords("k4_low", func(i int) uint32 { return []uint32{0x3f3f3f3f, 0x0f0f0f0f}[i%2] }), s, s)
	// ... which numbers 4 to 7 have above the bits of 0 to 3.
	VPSHUFD(Imm(1|1<<2|2<<4|2<<6), packed, upper)
	VPSRLD(Imm(2), upper, upper)
	VPAND(dwords("k4_high", func(i int) uint32 { return []uint32{0, 0x30303030}[i%2] }), upper, upper)
	VPOR(upper, s, s)
	y := dwordsOfBytes(VPMOVZXBD, s)
	scales.put(0, y[0], d)
	mins.put(0, y[1], dmin)
}

func q6K(k *kernel) func() {
	w, deal, low := newWidener(k), newDealer(), keep(bytesOf("low_nibbles", 15))
	upper, offset := keep(bytesOf("upper_two", 0x30)), keep(bytesOf("thirty_two", 32))
	scales := newRow(16)
	return func() {
		d := forCodes(half(k.From(208)))
		for i := range 2 {
			y := YMM()
			VPMOVSXBD(k.From(192+8*i), y)
			scales.put(i, y, d)
		}
		for h := range 2 {
			ql := [2]VecVirtual{deal.load(k.From(64 * h)), deal.load(k.From(64*h + 32))}
			qh := deal.load(k.From(128 + 32*h))
			for g := range 4 {
				q, bits := field(ql[g%2], g/2*4, 0, low), field(qh, 2*g, 4, upper)
				VPOR(bits, q, q)
				VPSUBB(offset, q, q)
				run := 8*h + 2*g
				w.store(q, 16*run, times(scales.get(run)), times(scales.get(run+1)))
			}
		}
	}
}

func iq4XS(k *kernel) func() {
	w, n, values := newWidener(k), newNibbler(), keep(iq4Values())
	scales := newRow(8)
	return func() {
		d := forCodes(half(k.From(0)))
		lows, highs := YMM(), YMM()
		VPBROADCASTD(k.From(4), lows)
		VPSRLVD(dwords("iq4_low_shifts", func(i int) uint32 { return uint32(4 * i) }), lows, lows)
		VPAND(dwordsOf("fifteen", 15), lows, lows)
		// The upper bits follow d.
		VPBROADCASTD(k.From(0), highs)
		VPSRLVD(dwords("iq4_high_shifts", func(i int) uint32 { return uint32(16 + 2*i) }), highs, highs)
		VPSLLD(Imm(4), highs, highs)
		VPAND(dwordsOf("forty_eight", 48), highs, highs)
		VPOR(lows, highs, highs)
		VPSUBD(dwordsOf("thirty_twos", 32), highs, highs)
		scales.put(0, highs, d)
		for run := range 8 {
			q := n.unpack(k.From(8 + 16*run))
			VPSHUFB(q, values, q)
			w.store(q, 32*run, times(scales.get(run)))
		}
	}
}
