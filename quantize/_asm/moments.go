package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// moments generates what package moments has. Eight sums of each kind are one vector of AVX-512, or two of AVX2.
func moments() {
	powers(false)
	powers(true)
	pairs()
}

// halves returns the number of vectors that eight float64s fill.
func halves() int {
	if wide() {
		return 1
	}
	return 2
}

// doubles returns the float32s at m as a vector of float64s.
func doubles(m Mem) VecVirtual {
	v := V()
	VCVTPS2PD(m, v)
	return v
}

// everywhere returns a float64 parameter in all lanes.
func everywhere(name string) VecVirtual {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	v := V()
	VBROADCASTSD(p.Addr, v)
	return v
}

// sums are eight float64s for each kind of sum, in memory at base.
type sums struct {
	base GPVirtual
	v    [4][]VecVirtual
}

// loadedSums returns the sums that lie at a parameter.
func loadedSums(name string) (s sums) {
	s.base = Load(Param(name), GP64()).(GPVirtual)
	for kind := range s.v {
		for h := range halves() {
			s.v[kind] = append(s.v[kind], loaded(Mem{Base: s.base, Disp: 64*kind + 32*h}))
		}
	}
	return s
}

func (s sums) store() {
	for kind := range s.v {
		for h, v := range s.v[kind] {
			VMOVUPS(v, Mem{Base: s.base, Disp: 64*kind + 32*h})
		}
	}
}

// plus adds v to a sum.
func (s sums) plus(kind, half int, v VecVirtual) { VADDPD(v, s.v[kind][half], s.v[kind][half]) }

// product returns a times b.
func product(a, b VecVirtual) VecVirtual { return binary(VMULPD, a, b) }

// eachSixteen loops over sixteen float32s at a time. body gets the offsets of vectors, and for each the half of the sums.
func eachSixteen(left GPVirtual, from []GPVirtual, body func(at, half int)) {
	Label("loop")
	for at := 0; at < 64; at += 32 / halves() {
		body(at, at*halves()/32%halves())
	}
	for _, p := range from {
		ADDQ(Imm(64), p)
	}
	SUBQ(Imm(16), left)
	JNZ(LabelRef("loop"))
}

// powers generates what powersGeneric does. If counting is true, the kernel counts codes too, while it waits for sums.
func powers(counting bool) {
	const params = "sums *[4][8]float64, least, most *[16]float32, zeros *[16]int32, x []float32, pivot float64"
	if counting {
		TEXT("count"+level, attr.NOSPLIT, "func("+params+", codes *[65536]uint32)")
		Doc("count" + level + " does what powersGeneric does, and counts codes, for a multiple of 16 numbers.")
	} else {
		TEXT("powers"+level, attr.NOSPLIT, "func("+params+")")
		Doc("powers" + level + " does what powersGeneric does, for a multiple of 16 numbers.")
	}
	Pragma("noescape")
	var codes GPVirtual
	if counting {
		codes = Load(Param("codes"), GP64()).(GPVirtual)
	}
	s, pivot := loadedSums("sums"), everywhere("pivot")
	least := Load(Param("least"), GP64()).(GPVirtual)
	most := Load(Param("most"), GP64()).(GPVirtual)
	zeros := Load(Param("zeros"), GP64()).(GPVirtual)
	low, high, count, none := loaded(Mem{Base: least}), loaded(Mem{Base: most}), loaded(Mem{Base: zeros}), zero()
	x := Load(Param("x").Base(), GP64()).(GPVirtual)
	eachSixteen(Load(Param("x").Len(), GP64()).(GPVirtual), []GPVirtual{x}, func(at, half int) {
		if counting && at == 0 {
			PREFETCHT0(Mem{Base: x, Disp: 2048}) // a sixth less time for numbers from memory; beyond the end it does nothing
		}
		if at%(4*lanes()) == 0 {
			f := loaded(Mem{Base: x, Disp: at})
			VMINPS(f, low, low)
			VMAXPS(f, high, high)
			VPSUBD(compared(equal, f, none).ones(), count, count)
		}
		d := doubles(Mem{Base: x, Disp: at})
		VSUBPD(pivot, d, d)
		s.plus(0, half, d)
		dd := product(d, d)
		s.plus(1, half, dd)
		VMULPD(dd, d, d)
		s.plus(2, half, d)
		VMULPD(dd, dd, dd)
		s.plus(3, half, dd)
		for i := 0; counting && i < 32/halves(); i += 4 {
			code := GP64()
			MOVWLZX(Mem{Base: x, Disp: at + i + 2}, code.As32())
			INCL(Mem{Base: codes, Index: code, Scale: 4})
		}
	})
	s.store()
	VMOVUPS(low, Mem{Base: least})
	VMOVUPS(high, Mem{Base: most})
	VMOVUPS(count, Mem{Base: zeros})
	VZEROUPPER()
	RET()
}

// pairs generates what pairsGeneric does.
func pairs() {
	TEXT("pairs"+level, attr.NOSPLIT, "func(sums *[4][8]float64, most *[8]float64, differing, exceeding *[8]int64, a, b []float32, rel float64)")
	Doc("pairs" + level + " does what pairsGeneric does, for a multiple of 16 pairs.")
	Pragma("noescape")
	s, rel := loadedSums("sums"), everywhere("rel")
	most := Load(Param("most"), GP64()).(GPVirtual)
	differing := Load(Param("differing"), GP64()).(GPVirtual)
	exceeding := Load(Param("exceeding"), GP64()).(GPVirtual)
	far, count, beyond := loaded(Mem{Base: most}), loaded(Mem{Base: differing}), loaded(Mem{Base: exceeding})
	a, b := Load(Param("a").Base(), GP64()).(GPVirtual), Load(Param("b").Base(), GP64()).(GPVirtual)
	size := kit.List(16, func(i int) uint32 { return [2]uint32{0xffffffff, 0x7fffffff}[i%2] })
	absolute := func(v VecVirtual) { VANDPD(kit.Words("magnitude_of_double", size...), v, v) }
	countIf := func(predicate int, a, b, count VecVirtual) {
		t := V()
		if wide() {
			k := K()
			VCMPPD(Imm(uint64(predicate)), b, a, k)
			VPMOVM2Q(k, t)
		} else {
			VCMPPD(Imm(uint64(predicate)), b, a, t)
		}
		VPSUBQ(t, count, count)
	}
	eachSixteen(Load(Param("a").Len(), GP64()).(GPVirtual), []GPVirtual{a, b}, func(at, half int) {
		x, y := doubles(Mem{Base: a, Disp: at}), doubles(Mem{Base: b, Disp: at})
		countIf(notEqual, x, y, count)
		s.plus(0, half, product(x, x))
		s.plus(1, half, product(y, y))
		s.plus(2, half, product(x, y))
		d := binary(VSUBPD, x, y)
		s.plus(3, half, product(d, d))
		absolute(d)
		VMAXPD(d, far, far)
		absolute(x)
		absolute(y)
		VMAXPD(y, x, x)
		VMULPD(rel, x, x)
		countIf(greater, d, x, beyond)
	})
	s.store()
	VMOVUPS(far, Mem{Base: most})
	VMOVUPS(count, Mem{Base: differing})
	VMOVUPS(beyond, Mem{Base: exceeding})
	VZEROUPPER()
	RET()
}
