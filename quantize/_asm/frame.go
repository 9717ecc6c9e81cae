package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// Places in fitted, whose rows have a float for each of sixteen fits.
const (
	row     = 64
	index   = 0
	scales  = 1 * row
	seconds = 2 * row // offsets, or inverse scales
	inverse = 3 * row // of the codes of an affine fit, and
	lowest  = 4 * row // what is subtracted before
	spare   = 5 * row // three
	xs      = 8 * row
	ws      = xs + 32*row
	ls      = ws + 32*row
)

// level is the level being generated. AVX-512 makes sixteen fits at once, AVX2 eight and then eight.
var level = "AVX2"

func wide() bool { return level == "AVX512" }

// V returns a vector.
func V() VecVirtual {
	if wide() {
		return ZMM()
	}
	return YMM()
}

// A kernel is the function being generated.
type kernel struct {
	f           GPVirtual // fits
	x, w        GPVirtual
	elems       GPVirtual // bytes of the rows of a fit's elements
	tops, tries GPVirtual // numerators, and their number
}

// fit opens a function, gathers the elements and calls body. Elements of a fit lie one after the other.
func fit(name, doc string, weights bool, body func(k *kernel)) {
	TEXT(name+level, attr.NOSPLIT, "func(f *int32, x, w *float32, elems int, tops []float32, most, absolute int)")
	Doc(name + level + " " + doc)
	Pragma("noescape")
	load := func(p string) GPVirtual { return Load(Param(p), GP64()).(GPVirtual) }
	k := &kernel{f: load("f"), elems: load("elems")}
	SHLQ(Imm(6), k.elems)
	half := GP64()
	if !wide() {
		MOVQ(U32(2), half)
	}
	Label("half")
	k.x = load("x")
	if weights {
		k.w = load("w")
	}
	at := V()
	VMOVUPS(k.at(index), at)
	k.each("gather", 0, func(i GPVirtual) {
		k.gather(k.x, at, k.row(i, xs))
		if weights {
			k.gather(k.w, at, k.row(i, ws))
		}
	})
	k.tops = Load(Param("tops").Base(), GP64()).(GPVirtual)
	k.tries = Load(Param("tops").Len(), GP64()).(GPVirtual)
	body(k)
	if !wide() {
		ADDQ(Imm(32), k.f)
		DECQ(half)
		JNZ(LabelRef("half"))
	}
	VZEROUPPER()
	RET()
}

// gather loads an element of each fit, stores the row and moves to the next.
func (k *kernel) gather(from GPVirtual, at VecVirtual, to Mem) {
	v := V()
	m := Mem{Base: from, Index: at, Scale: 4}
	if wide() {
		mask := K()
		KXNORW(mask, mask, mask)
		VGATHERDPS(m, mask, v)
	} else {
		mask := V()
		VPCMPEQD(mask, mask, mask)
		VGATHERDPS(mask, m, v)
	}
	VMOVUPS(v, to)
	ADDQ(Imm(4), from)
}

func (k *kernel) at(place int) Mem { return Mem{Base: k.f, Disp: place} }

// row returns a row of some elements.
func (k *kernel) row(i GPVirtual, place int) Mem {
	return Mem{Base: k.f, Index: i, Scale: 1, Disp: place}
}

// each loops over elements, from the first on.
func (k *kernel) each(label string, first int, body func(i GPVirtual)) {
	i := GP64()
	MOVQ(U32(first*row), i)
	Label(label)
	body(i)
	ADDQ(U32(row), i)
	CMPQ(i, k.elems)
	JNE(LabelRef(label))
}

// eachTry loops over numerators.
func (k *kernel) eachTry(label string, body func()) {
	Label(label)
	body()
	ADDQ(Imm(4), k.tops)
	DECQ(k.tries)
	JNZ(LabelRef(label))
}

// quotient returns the next numerator, divided.
func (k *kernel) quotient(by VecVirtual) VecVirtual {
	v := V()
	VBROADCASTSS(Mem{Base: k.tops}, v)
	VDIVPS(by, v, v)
	return v
}

func loaded(m Mem) VecVirtual {
	v := V()
	VMOVUPS(m, v)
	return v
}

// splat returns a constant in all lanes.
func splat(name string, bits uint32) VecVirtual {
	v := V()
	VBROADCASTSS(kit.Words(name, bits), v)
	return v
}

func number(name string, f float32) VecVirtual { return splat(name, math.Float32bits(f)) }

// param returns an integer in all lanes.
func param(name string, change func(r GPVirtual)) VecVirtual {
	r, x, v := GP64(), XMM(), V()
	Load(Param(name), r)
	change(r)
	VMOVD(r.As32(), x)
	VPBROADCASTD(x, v)
	return v
}

func zero() VecVirtual {
	v := V()
	VXORPS(v, v, v)
	return v
}

func copied(v VecVirtual) VecVirtual {
	c := V()
	VMOVAPS(v, c)
	return c
}

// binary returns the operation's result in a register of its own. a is its left operand.
func binary(op func(ops ...Op), a VecVirtual, b Op) VecVirtual {
	v := V()
	op(b, a, v)
	return v
}

func add(a VecVirtual, b Op) VecVirtual { return binary(VADDPS, a, b) }
func sub(a VecVirtual, b Op) VecVirtual { return binary(VSUBPS, a, b) }
func mul(a VecVirtual, b Op) VecVirtual { return binary(VMULPS, a, b) }
func div(a VecVirtual, b Op) VecVirtual { return binary(VDIVPS, a, b) }

func magnitude(v VecVirtual) VecVirtual {
	a := V()
	VANDPS(splatted("magnitude", 0x7fffffff), v, a)
	return a
}

// plus adds v to sum.
func plus(sum, v VecVirtual) { VADDPS(v, sum, sum) }

// Predicates of VCMPPS.
const (
	equal     = 0x00 // false for NaN
	less      = 0x11 // false for NaN
	greater   = 0x1e // false for NaN
	notEqual  = 0x04 // true for NaN
	notLess   = 0x15 // true for NaN
	unordered = 0x03 // true for NaN only
)

// A mask says of each lane yes or no.
type mask struct {
	k OpmaskVirtual
	v VecVirtual
}

// compared returns for which lanes a and b are as the predicate says.
func compared(predicate int, a VecVirtual, b Op) mask {
	if wide() {
		k := K()
		VCMPPS(Imm(uint64(predicate)), b, a, k)
		return mask{k: k}
	}
	v := V()
	VCMPPS(Imm(uint64(predicate)), b, a, v)
	return mask{v: v}
}

func both(m, n mask) mask {
	if wide() {
		k := K()
		KANDW(m.k, n.k, k)
		return mask{k: k}
	}
	return mask{v: binary(VANDPS, m.v, n.v)}
}

// clear makes m say no of all lanes.
func (m mask) clear() {
	if wide() {
		KXORW(m.k, m.k, m.k)
	} else {
		VXORPS(m.v, m.v, m.v)
	}
}

// include makes m say yes where n does.
func (m mask) include(n mask) {
	if wide() {
		KORW(n.k, m.k, m.k)
	} else {
		VORPS(n.v, m.v, m.v)
	}
}

// jumpIfNone jumps if m says no of all lanes.
func (m mask) jumpIfNone(label string) {
	if wide() {
		KORTESTW(m.k, m.k)
	} else {
		bits := GP32()
		VMOVMSKPS(m.v, bits)
		TESTL(bits, bits)
	}
	JZ(LabelRef(label))
}

// where replaces lanes of dst.
func (m mask) where(v, dst VecVirtual) {
	if wide() {
		VMOVAPS(v, m.k, dst)
	} else {
		VBLENDVPS(m.v, v, dst, dst)
	}
}

// ones returns -1 for yes, and 0 for no.
func (m mask) ones() VecVirtual {
	if !wide() {
		return m.v
	}
	v := V()
	VPMOVM2D(m.k, v)
	return v
}

// A rounder rounds as ggml's nearest_int does, and clamps. A NaN may become anything: where it matters the result is one too.
type rounder struct{ low, high Op }

// round replaces v with the float of the nearest integer within the bounds.
func (r rounder) round(v VecVirtual) {
	r.roundInts(v)
	VCVTDQ2PS(v, v)
}

// roundInts replaces v with the integer itself.
func (r rounder) roundInts(v VecVirtual) {
	VADDPS(splatted("magic", math.Float32bits(12582912)), v, v) // 1.5·2²³
	// Bits of the sum below 2²³ are the integer, 2²² too great.
	if wide() {
		VPANDD(splatted("mantissa", 0x7fffff), v, v)
	} else {
		VPAND(splatted("mantissa", 0x7fffff), v, v)
	}
	VPSUBD(splatted("half_mantissa", 0x400000), v, v)
	VPMAXSD(r.low, v, v)
	VPMINSD(r.high, v, v)
}

// splatted returns the address of a vector with a constant in all lanes.
func splatted(name string, bits uint32) Mem {
	return kit.Words(fmt.Sprintf("%s_lanes", name), kit.List(16, func(int) uint32 { return bits })...)
}
