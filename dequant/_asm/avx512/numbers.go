package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// A number is a type whose blocks are single elements.
type number struct {
	name string
	size int // bytes of an element
	// begin loads constants. It returns a function that converts sources of one vector each,
	// in memory or in a register of their width.
	begin func(k *kernel) func(src []Op) []reg.VecVirtual
}

// lanes returns the number of elements of one vector: eight of 64 bits, so that source or result
// fills a register.
func (n number) lanes() int { return min(16, 64/n.size) }

func numbers() {
	for _, n := range []number{
		{"f32", 4, simple(func(src Op, z reg.VecVirtual) { VMOVUPS(src, z) })},
		{"f16", 2, binary16},
		{"bf16", 2, simple(func(src Op, z reg.VecVirtual) {
			VPMOVZXWD(src, z)
			VPSLLD(U8(16), z, z)
		})},
		{"f64", 8, simple(func(src Op, z reg.VecVirtual) { VCVTPD2PS(src, z.AsY()) })},
		{"i8", 1, simple(func(src Op, z reg.VecVirtual) {
			VPMOVSXBD(src, z)
			VCVTDQ2PS(z, z)
		})},
		{"i16", 2, simple(func(src Op, z reg.VecVirtual) {
			VPMOVSXWD(src, z)
			VCVTDQ2PS(z, z)
		})},
		{"i32", 4, simple(func(src Op, z reg.VecVirtual) { VCVTDQ2PS(src, z) })},
		{"i64", 8, simple(func(src Op, z reg.VecVirtual) { VCVTQQ2PS(src, z.AsY()) })},
		{"u8", 1, simple(func(src Op, z reg.VecVirtual) {
			VPMOVZXBD(src, z)
			VCVTDQ2PS(z, z)
		})},
		{"u16", 2, simple(func(src Op, z reg.VecVirtual) {
			VPMOVZXWD(src, z)
			VCVTDQ2PS(z, z)
		})},
		{"u32", 4, simple(func(src Op, z reg.VecVirtual) { VCVTUDQ2PS(src, z) })},
		{"u64", 8, simple(func(src Op, z reg.VecVirtual) { VCVTUQQ2PS(src, z.AsY()) })},
		{"bool", 1, truth},
		{"f8e4m3", 1, e4m3},
		{"f8e5m2", 1, e5m2},
	} {
		kit.Both(n.name, level, n.write)
	}
}

// simple serves types that expand each vector alone and need no constant.
func simple(expand func(src Op, z reg.VecVirtual)) func(k *kernel) func(src []Op) []reg.VecVirtual {
	return func(*kernel) func(src []Op) []reg.VecVirtual {
		return each(expand)
	}
}

// each returns an expansion of several vectors, made from the expansion of one.
func each(expand func(src Op, z reg.VecVirtual)) func(src []Op) []reg.VecVirtual {
	return func(src []Op) []reg.VecVirtual {
		out := make([]reg.VecVirtual, len(src))
		for i := range src {
			out[i] = ZMM()
			expand(src[i], out[i])
		}
		return out
	}
}

// write makes a loop over four vectors and one over single, masked vectors for the rest.
func (n number) write(function *kit.Kernel) {
	const vectors = 4
	k := &kernel{Kernel: function}
	expand := n.begin(k)
	lanes, in, out := n.lanes(), n.lanes()*n.size, n.lanes()*4
	masked := func(count reg.GPVirtual) {
		mask := firstLanes(count)
		last := []Op{n.maskedLoad(k.From(0), mask)}
		k.storeMended(expand(last), func(results []reg.VecVirtual) {
			VMOVUPS(lower(results[0], out), mask, Mem{Base: k.Dst})
		})
	}
	if !k.Stream {
		n.align(k, masked)
	}
	SUBQ(U32(vectors*lanes), k.Left)
	JB(LabelRef("rest"))

	Label("loop")
	src := make([]Op, vectors)
	for i := range src {
		src[i] = k.From(i * in)
	}
	k.storeMended(expand(src), func(results []reg.VecVirtual) {
		for i, z := range results {
			k.Store(lower(z, out), i*out/4)
		}
	})
	ADDQ(U32(vectors*in), k.Src)
	ADDQ(U32(vectors*out), k.Dst)
	SUBQ(U32(vectors*lanes), k.Left)
	JAE(LabelRef("loop"))

	Label("rest")
	ADDQ(U32(vectors*lanes), k.Left)
	JZ(LabelRef("done"))
	Label("part")
	masked(k.Left)
	ADDQ(U32(in), k.Src)
	ADDQ(U32(out), k.Dst)
	SUBQ(U32(lanes), k.Left)
	JA(LabelRef("part"))
	Label("done")
}

// align expands the elements before a vector's place in memory first: stores that cross cache lines
// take twice their time. Few elements are left as they are.
func (n number) align(k *kernel, masked func(count reg.GPVirtual)) {
	head := GP64()
	MOVQ(k.Dst, head)
	NEGQ(head)
	SHRQ(U8(2), head)
	ANDQ(I8(n.lanes()-1), head)
	JZ(LabelRef("aligned"))
	CMPQ(k.Left, U32(4*n.lanes()))
	JB(LabelRef("aligned"))
	masked(head)
	LEAQ(Mem{Base: k.Src, Index: head, Scale: uint8(n.size)}, k.Src)
	LEAQ(Mem{Base: k.Dst, Index: head, Scale: 4}, k.Dst)
	SUBQ(head, k.Left)
	Label("aligned")
}

// lower returns the lower size bytes of z.
func lower(z reg.VecVirtual, size int) reg.VecVirtual {
	if size == 32 {
		return z.AsY().(reg.VecVirtual)
	}
	return z
}

// maskedLoad loads a source vector, with zeros for the elements that the mask leaves out.
func (n number) maskedLoad(src Op, mask reg.OpmaskVirtual) Op {
	switch z := ZMM(); n.size {
	case 1:
		VMOVDQU8_Z(src, mask, z.AsX())
		return z.AsX()
	case 2:
		VMOVDQU16_Z(src, mask, z.AsY())
		return z.AsY()
	case 4:
		VMOVDQU32_Z(src, mask, z)
		return z
	default:
		VMOVDQU64_Z(src, mask, z)
		return z
	}
}

// firstLanes returns a mask with a bit for each of the first n < 64 elements.
func firstLanes(n reg.GPVirtual) reg.OpmaskVirtual {
	ones, mask := GP64(), K()
	MOVQ(I32(-1), ones)
	MOVQ(n, reg.RCX)
	SHLQ(reg.CL, ones)
	NOTQ(ones)
	KMOVQ(ones, mask)
	return mask
}

// binary16 converts. The instruction quiets signalling NaNs, which get the bits back that they have
// in src.
func binary16(k *kernel) func(src []Op) []reg.VecVirtual {
	exponent := splat("exponent", 0x7f800000)
	convert := each(func(src Op, z reg.VecVirtual) { VCVTPH2PS(src, z) })
	return func(src []Op) []reg.VecVirtual {
		out := convert(src)
		k.onNaN(out, func() []reg.VecVirtual {
			for i, z := range out {
				bits := ZMM()
				// The sign is extended over the exponent, which is all ones anyway.
				VPMOVSXWD(src[i], bits)
				VPSLLD(U8(13), bits, bits)
				VPORD(exponent, bits, isNaN(z), z)
			}
			return out
		})
		return out
	}
}

// unordered is the predicate of VCMPPS that is true of NaNs.
const unordered = 3

// isNaN returns the mask of the NaNs in a register.
func isNaN(f reg.VecVirtual) reg.OpmaskVirtual {
	mask := K()
	VCMPPS(U8(unordered), f, f, mask)
	return mask
}

// A repair makes results again if one of floats is a NaN.
type repair struct {
	floats  []reg.VecVirtual
	results func() []reg.VecVirtual
}

// onNaN leaves a repair for storeMended.
func (k *kernel) onNaN(floats []reg.VecVirtual, results func() []reg.VecVirtual) {
	k.repair = &repair{floats, results}
}

// storeMended stores, and once more if a NaN has spoilt the results. Looking for NaNs first would
// delay the stores, which bound these loops. One comparison sees that two vectors have none.
func (k *kernel) storeMended(results []reg.VecVirtual, store func(results []reg.VecVirtual)) {
	store(results)
	if k.repair == nil {
		return
	}
	// The main loop and the rest of one kernel both come here.
	nan, back := fmt.Sprint("nan", k.Rare()), fmt.Sprint("mended", k.Rare())
	floats, mend := k.repair.floats, k.repair.results
	k.repair = nil
	var seen []reg.OpmaskVirtual
	for i := 0; i < len(floats); i += 2 {
		mask := K()
		VCMPPS(U8(unordered), floats[min(i+1, len(floats)-1)], floats[i], mask)
		seen = append(seen, mask)
	}
	KORTESTW(seen[0], seen[len(seen)-1])
	JNE(LabelRef(nan))
	Label(back)
	k.Rarely(func() {
		Label(nan)
		store(mend())
		JMP(LabelRef(back))
	})
}

// e5m2 treats bytes as the upper halves of binary16s.
func e5m2(k *kernel) func(src []Op) []reg.VecVirtual {
	expand := binary16(k)
	return func(src []Op) []reg.VecVirtual {
		halves := make([]Op, len(src))
		for i := range src {
			h := YMM()
			VPMOVZXBW(src[i], h)
			VPSLLW(U8(8), h, h)
			halves[i] = h
		}
		return expand(halves)
	}
}

// e4m3 moves exponent and mantissa into a binary16's place, which makes 2^-8 of the value. A
// binary32's place would do too, but its product with a subnormal is slow on some processors.
func e4m3(*kernel) func(src []Op) []reg.VecVirtual {
	keep := splat("e4m3Bits", 0xbf80bf80)
	scale := splatFloat("twoTo8", 0x1p8)
	magnitude := splat("e4m3Magnitude", 0x3f803f80)
	nan := splat("e4m3NaN", 0x7ff00000)
	return each(func(src Op, z reg.VecVirtual) {
		h, payload, isNaN := YMM(), YMM(), K()
		VPMOVSXBW(src, h)
		VPSLLW(U8(7), h, h)
		VPANDD(keep.AsY(), h, h)
		VPANDD(magnitude.AsY(), h, payload)
		VPCMPEQW(magnitude.AsY(), payload, isNaN)
		VCVTPH2PS(h, z)
		VMULPS(scale, z, z)
		VPORD(nan, z, isNaN, z)
	})
}

// truth gives 1 for all but zero.
func truth(*kernel) func(src []Op) []reg.VecVirtual {
	one := splatFloat("one", 1)
	return each(func(src Op, z reg.VecVirtual) {
		isSet := K()
		VPMOVZXBD(src, z)
		VPTESTMD(z, z, isSet)
		VMOVAPS_Z(one, isSet, z)
	})
}

// scaledNumbers generates (q − zero) × scale. The difference is exact, so one product rounds.
func scaledNumbers() {
	for _, n := range []number{
		{name: "i8", size: 1},
		{name: "i16", size: 2},
	} {
		widen := map[int]func(ops ...Op){1: VPMOVSXBD, 2: VPMOVSXWD}[n.size]
		n.begin = func(*kernel) func(src []Op) []reg.VecVirtual {
			scale, zero := ZMM(), ZMM()
			VBROADCASTSS(Load(Param("scale"), XMM()), scale)
			VPBROADCASTD(Load(Param("zero"), GP32()), zero)
			return each(func(src Op, z reg.VecVirtual) {
				widen(src, z)
				VPSUBD(zero, z, z)
				VCVTDQ2PS(z, z)
				VMULPS(scale, z, z)
			})
		}
		k := kit.Begin(n.name+"Scaled", level, kit.ExpandsScale, false)
		n.write(k)
		k.End()
	}
}
